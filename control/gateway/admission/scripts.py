"""The steps that Valkey runs: each is atomic, for all gateways together.

Times are whole microseconds of the store's own clock. A rate is one number, GCRA's theoretical
arrival time; a key that is absent is a bucket that has filled since the store was known to be
empty. What a killed gateway had taken of a rate is refilled by time; its leases end by themselves.
"""

import hashlib
from typing import NamedTuple

CLOCK = b"""
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
"""
# Units that processes hold ahead of their calls, beside each limit: a hash of `units:end` by lease.
_LEASED = b"""
local function leases_of(key)
  local live, ended, total = {}, {}, 0
  local all = redis.call('HGETALL', 'leased:' .. key)
  for i = 1, #all, 2 do
    local units, ends = string.match(all[i + 1], '^(%d+):(%d+)$')
    local lease = {field = all[i], units = tonumber(units), ends = tonumber(ends)}
    if lease.ends > now then live[lease.field] = lease.units else ended[#ended + 1] = lease end
    total = total + lease.units
  end
  table.sort(ended, function(one, other) return one.ends < other.ends end)
  return live, ended, total
end
"""
# The last key says since when the store keeps count: 0 if from the beginning. A store that lost all
# has lost it too, and every bucket starts empty then.
# What is leased does not refill: the bucket is at least as far ahead as what processes still hold,
# and until a lease ended it was for that one too.
_RATES = b"""
local since = redis.call('GET', KEYS[#KEYS])
if not since then
  since = now
  redis.call('SET', KEYS[#KEYS], string.format('%.0f', now))
end
local function tat_of(key, period, burst)
  local tat = tonumber(redis.call('GET', key) or since + period * burst)
  local live, ended, total = leases_of(key)
  for _, lease in ipairs(ended) do
    tat = math.max(tat, lease.ends + total * period)
    total = total - lease.units
    redis.call('HDEL', 'leased:' .. key, lease.field)
  end
  return math.max(tat, now + total * period), live, total
end
local function store(key, tat)
  redis.call('SET', key, string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000) + 1000)
end
local function settled(tat, change, period, burst)
  local new = tat + change * period
  return change > 0 and math.min(new, math.max(tat, now + 2 * burst * period)) or new
end
"""
_SLOTS = b"""
local function taken_of(key)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  local live, ended, total = leases_of(key)
  for _, lease in ipairs(ended) do
    total = total - lease.units
    redis.call('HDEL', 'leased:' .. key, lease.field)
  end
  return redis.call('ZCARD', key) + total, live
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
_TAKE = b"""
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
  elseif taken_of(key) >= a and not redis.call('ZSCORE', key, ARGV[1]) then
    refused(i, 1000000)
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
# A call has ended. ARGV: call id, input and output tokens: those below zero are given back, others
# charged until the bucket owes as much as it holds.
_SETTLE = b"""
for i = 1, #KEYS - 1 do
  local key = KEYS[i]
  local kind, a, b = ARGV[3 * i + 1], tonumber(ARGV[3 * i + 2]), tonumber(ARGV[3 * i + 3])
  if kind ~= 'c' then
    local tat, _, total = tat_of(key, a, b)
    store(key, math.max(settled(tat, units_of(kind), a, b), now + total * a))
  else
    redis.call('ZREM', key, ARGV[1])
  end
end
return 1
"""
# KEYS: one set of leases. ARGV: lease, then call ids. An expired lease is not revived, unless ARGV
# says `new` first: a connection is back, and the calls that still run are announced again.
_RENEW = b"""
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local which = ARGV[2] == 'new' and 'GT' or 'XX'
for i = 3, #ARGV do
  redis.call('ZADD', KEYS[1], which, string.format('%.0f', now + ARGV[1]), ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], math.ceil(ARGV[1] / 1000) + 1000)
return 1
"""
# One process's leases, all renewed. ARGV: lease, `old` or `new` as above; then per key r|c, period
# or most, burst, the lease's name, what the process still holds, what it gives back of the rest
# (all other units it has spent), how many more it wants, and what its calls used beyond what they
# held. Reply per key: whether the lease was known, how many more it has now, and what remains.
_EXCHANGE = b"""
local function keep(key, field, units, drained)
  local leased = 'leased:' .. key
  if units == 0 then return redis.call('HDEL', leased, field) end
  redis.call('HSET', leased, field, string.format('%.0f:%.0f', units, now + ARGV[1]))
  local left = math.ceil((ARGV[1] + drained) / 1000) + 1000
  redis.call('PEXPIRE', leased, math.max(left, redis.call('PTTL', leased)))
end
local function of_rate(key, at)
  local period, burst, field = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), ARGV[at + 3]
  local tat, live, total = tat_of(key, period, burst)
  local known = live[field]
  local held = known and tonumber(ARGV[at + 4]) or 0
  local back = known and tonumber(ARGV[at + 5]) or 0
  total = total - (known or 0) + held
  tat = settled(tat - back * period, tonumber(ARGV[at + 7]), period, burst)
  tat = math.max(tat, now + total * period)
  local room = math.floor((now + burst * period - tat + 0.5) / period)
  local more = math.max(math.min(tonumber(ARGV[at + 6]), room), 0)
  tat = tat + more * period
  store(key, tat)
  keep(key, field, held + more, (total + more) * period)
  return known, more, math.min(math.floor(burst - (tat - now - 1) / period), burst)
end
local function of_slots(key, at)
  local most, field = tonumber(ARGV[at + 1]), ARGV[at + 3]
  local taken, live = taken_of(key)
  local known = live[field]
  local held = (known or ARGV[2] == 'new') and tonumber(ARGV[at + 4]) or 0
  taken = taken - (known or 0) + held
  local more = math.max(math.min(tonumber(ARGV[at + 6]), most - taken), 0)
  keep(key, field, held + more, 0)
  return known or ARGV[2] == 'new', more, most - taken - more
end
local reply = {}
for i = 1, #KEYS - 1 do
  local at = 8 * i - 5
  local of = ARGV[at] == 'c' and of_slots or of_rate
  local known, more, remaining = of(KEYS[i], at)
  reply[#reply + 1] = known and 1 or 0
  reply[#reply + 1] = more
  reply[#reply + 1] = remaining
end
return reply
"""


class Steps(NamedTuple):
    take: bytes
    settle: bytes
    renew: bytes
    exchange: bytes


def steps(clock: bytes = CLOCK) -> Steps:
    """`clock` is Lua that sets `now`, in microseconds."""
    limits = clock + _LEASED + _RATES
    return Steps(
        take=limits + _SLOTS + _UNITS + _TAKE,
        settle=limits + _UNITS + _SETTLE,
        renew=clock + _RENEW,
        exchange=limits + _SLOTS + _EXCHANGE,
    )


STEPS = steps()


def sha(script: bytes) -> str:
    return hashlib.sha1(script, usedforsecurity=False).hexdigest()
