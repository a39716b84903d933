-- Judges a value of a key: at most MAX different ones per window.
-- The same as `count` in crates/limits/src/limiter/sharing/values.rs, number by number; all numbers are whole and below 2^53.
--
-- KEYS[1]  the key; gone when its last value ends. A sorted set: the names of its values, by when each ends in microseconds since 1970.
-- ARGV     WINDOW: microseconds; MAX: values; SLIDING: 1 if a value ends a window after it was counted, 0 if with the window of this
--          store's clock; WANTED: how often the value may pass; VALUE: its name.
-- Answers  WANTED or 0, values left, microseconds until there is room for another, microseconds until the value ends, now in
--          microseconds.
if #KEYS == 0 then return 0 end -- only to be kept, before it is needed
local window, max, sliding = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local wanted, value = tonumber(ARGV[4]), ARGV[5]

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local count = redis.call('ZCARD', KEYS[1])
local kept = redis.call('ZSCORE', KEYS[1], value)
if kept then
  return { wanted, math.max(0, max - count), 0, tonumber(kept) - now, now }
end
if count >= max then
  -- there is room again when so many of them have ended
  local rest = tonumber(redis.call('ZRANGE', KEYS[1], count - max, count - max, 'WITHSCORES')[2]) - now
  return { 0, 0, rest, rest, now }
end

local last = tonumber(redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] or 0)
local ends = now + window
if sliding == 0 then
  -- a clock that steps back stays in the window that it had reached
  ends = math.max(now - now % window + window, last)
end
redis.call('ZADD', KEYS[1], string.format('%.0f', ends), value)
local px = math.ceil((math.max(last, ends) - now) / 1000)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', px))
return { wanted, max - count - 1, 0, ends - now, now }
