"""The steps that Valkey runs: each is atomic, for all gateways together.

Times are whole microseconds of the store's own clock. A rate is one number, GCRA's theoretical
arrival time; a key that is absent is a bucket that has filled since the store was known to be
empty. What a killed gateway had taken of a rate is refilled by time; its leases end by themselves.
"""

import hashlib

CLOCK = b"""
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
"""
# The last key says since when the store keeps count: 0 if from the beginning. A store that lost all
# has lost it too, and every bucket starts empty then.
_RATES = b"""
local since = redis.call('GET', KEYS[#KEYS])
if not since then
  since = now
  redis.call('SET', KEYS[#KEYS], string.format('%.0f', now))
end
local function tat_of(key, period, burst)
  return math.max(tonumber(redis.call('GET', key) or since + period * burst), now)
end
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
    _RATES
    + _UNITS
    + b"""
local tats, news, worst, wait = {}, {}, 0, 0
local function refused(i, over)
  if over > wait then worst, wait = i, over end
end
for i = 1, #KEYS - 1 do
  local key = KEYS[i]
  local kind, a, b = ARGV[3 * i + 2], tonumber(ARGV[3 * i + 3]), tonumber(ARGV[3 * i + 4])
  if kind ~= 'c' then
    local units = units_of(kind)
    tats[i] = tat_of(key, a, b)
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
for i = 1, #KEYS - 1 do
  local key = KEYS[i]
  if news[i] then
    local a, b = tonumber(ARGV[3 * i + 3]), tonumber(ARGV[3 * i + 4])
    local tat = worst == 0 and news[i] or tats[i]
    if worst == 0 then store(key, tat) end
    -- Less the microsecond that rounding may have added.
    reply[#reply + 1] = math.min(math.floor(b - (tat - now - 1) / a), b)
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
    _RATES
    + _UNITS
    + b"""
for i = 1, #KEYS - 1 do
  local key = KEYS[i]
  local kind, a, b = ARGV[3 * i + 1], tonumber(ARGV[3 * i + 2]), tonumber(ARGV[3 * i + 3])
  if kind ~= 'c' then
    local units = units_of(kind)
    local tat = tat_of(key, a, b)
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
# KEYS: one set of leases. ARGV: lease, then call ids. An expired lease is not revived, unless ARGV
# says `new` first: a connection is back, and the calls that still run are announced again.
_RENEW_BODY = b"""
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local which = ARGV[2] == 'new' and 'GT' or 'XX'
for i = 3, #ARGV do
  redis.call('ZADD', KEYS[1], which, string.format('%.0f', now + ARGV[1]), ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[1] / 1000) + 1000)
return 1
"""

TAKE, SETTLE, RENEW = CLOCK + TAKE_BODY, CLOCK + SETTLE_BODY, CLOCK + _RENEW_BODY
ALL = (TAKE, SETTLE, RENEW)


def sha(script: bytes) -> str:
    return hashlib.sha1(script, usedforsecurity=False).hexdigest()
