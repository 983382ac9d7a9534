"""The steps that Valkey runs: each is atomic, for all gateways together.

Times are whole microseconds of the store's own clock. A rate is one number, GCRA's theoretical
arrival time; a key that is absent is a full bucket. What a killed gateway had taken of a rate is
refilled by time alone; its leases end by themselves.
"""

import hashlib

CLOCK = b"""
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
"""
_STORE = b"""
local function store(key, tat)
  redis.call('SET', key, string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000) + 1000)
end
"""
# What follows the call's own words in ARGV is per key: r|i|o period burst, for a rate of requests,
# input or output tokens; or c most 0.
_UNITS = b"""
local function units_of(kind)
  return kind == 'i' and tonumber(ARGV[2]) or kind == 'o' and tonumber(ARGV[3]) or 1
end
"""
# All checks pass or nothing is taken. ARGV: call id, input and output tokens, lease. Reply: the
# number of the check that makes the call wait longest (0: none) and its wait (-1: it never fits),
# then per rate what remains (below zero: owed) and the time until it is full.
TAKE_BODY = (
    _STORE
    + _UNITS
    + b"""
local tats, news, worst, wait = {}, {}, 0, 0
local function refused(i, over)
  if over > wait then worst, wait = i, over end
end
for i, key in ipairs(KEYS) do
  local kind, a, b = ARGV[3 * i + 2], tonumber(ARGV[3 * i + 3]), tonumber(ARGV[3 * i + 4])
  if kind ~= 'c' then
    local units = units_of(kind)
    tats[i] = math.max(tonumber(redis.call('GET', key) or '0'), now)
    news[i] = tats[i] + units * a
    local over = news[i] - now - a * b
    if units > b then refused(i, math.huge) elseif over > 0.5 then refused(i, over) end
  else
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    if redis.call('ZCARD', key) >= a and not redis.call('ZSCORE', key, ARGV[1]) then
      refused(i, 1000000)
    end
  end
end
local reply = {worst, wait == math.huge and -1 or math.ceil(wait)}
for i, key in ipairs(KEYS) do
  if news[i] then
    local a, b = tonumber(ARGV[3 * i + 3]), tonumber(ARGV[3 * i + 4])
    local tat = worst == 0 and news[i] or tats[i]
    if worst == 0 then store(key, tat) end
    reply[#reply + 1] = math.floor(b - (tat - now) / a + 0.01)
    reply[#reply + 1] = math.ceil(tat - now)
  elseif worst == 0 then
    redis.call('ZADD', key, string.format('%.0f', now + ARGV[4]), ARGV[1])
    redis.call('PEXPIRE', key, math.ceil(ARGV[4] / 1000) + 1000)
  end
end
return reply
"""
)
# A call has ended. ARGV: call id, input and output tokens: those below zero are given back, others
# charged until the bucket owes as much as it holds.
SETTLE_BODY = (
    _STORE
    + _UNITS
    + b"""
for i, key in ipairs(KEYS) do
  local kind, a, b = ARGV[3 * i + 1], tonumber(ARGV[3 * i + 2]), tonumber(ARGV[3 * i + 3])
  if kind ~= 'c' then
    local units = units_of(kind)
    local tat = math.max(tonumber(redis.call('GET', key) or '0'), now)
    local new = math.max(tat + units * a, now)
    if units > 0 then new = math.min(new, math.max(tat, now + 2 * a * b)) end
    store(key, new)
  else
    redis.call('ZREM', key, ARGV[1])
  end
end
return 1
"""
)
# KEYS: one set of leases. ARGV: lease, then call ids. An expired lease is never revived.
_RENEW_BODY = b"""
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], 'XX', string.format('%.0f', now + ARGV[1]), ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[1] / 1000) + 1000)
return 1
"""

TAKE, SETTLE, RENEW = CLOCK + TAKE_BODY, CLOCK + SETTLE_BODY, CLOCK + _RENEW_BODY
ALL = (TAKE, SETTLE, RENEW)


def sha(script: bytes) -> str:
    return hashlib.sha1(script, usedforsecurity=False).hexdigest()
