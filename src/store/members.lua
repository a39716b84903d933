-- Writes that a gate is there, and answers how many are: those that said so within the last five seconds of this store's
-- clock. A stamp from the future is one from before the clock stepped back.
--
-- KEYS[1]  the set of gates, scored by milliseconds.
-- ARGV     the life of a stamp in milliseconds, the gate's name.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local life = tonumber(ARGV[1])
local function text(number) return string.format('%.0f', number) end

redis.call('ZADD', KEYS[1], text(now), ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. text(now - life))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. text(now + life), '+inf')
redis.call('PEXPIRE', KEYS[1], text(2 * life))
return { redis.call('ZCARD', KEYS[1]) }
