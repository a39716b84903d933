-- One question of a quota: at most MAX per window, windows aligned to this store's clock.
-- The same as `grant` in src/limiter/cluster/promise.rs, number by number; all numbers are whole and below 2^53.
--
-- KEYS[1]  the key. Its value: '1 WINDOW INDEX COUNT', where 1 is the format; gone when the window ends.
-- ARGV     WINDOW: microseconds; MAX: units per window; WANTED and LEAST: units asked for.
-- Answers  units granted, units left, microseconds until LEAST fits (0 of a grant, -1 never),
--          microseconds until the window ends, now in microseconds.
if #KEYS == 0 then return 0 end -- only to be kept, before it is needed
local window, max = tonumber(ARGV[1]), tonumber(ARGV[2])
local wanted, least = tonumber(ARGV[3]), tonumber(ARGV[4])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local index, count = math.floor(now / window), 0

local state = redis.call('GET', KEYS[1])
if state then
  local w, i, c = string.match(state, '^1 (%d+) (%d+) (%d+)$')
  if not w then return redis.error_reply('ERR tidegate does not know this format') end
  w, i, c = tonumber(w), tonumber(i), tonumber(c)
  if w == window then
    -- a later window than now's: the clock has stepped back, and that window is not begun twice
    if i >= index then index, count = i, c end
  elseif (i + 1) * w > now then
    -- the policy's window has changed: what was taken in the old one, which has not ended, counts in the new one
    count = c
  end
end

local fit = math.max(0, max - count)
local granted = math.min(wanted, fit)
if granted < least then granted = 0 end
local rest = (index + 1) * window - now

local retry = 0
if granted > 0 then
  local px = math.ceil(rest / 1000)
  local value = string.format('1 %.0f %.0f %.0f', window, index, count + granted)
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', px))
elseif least > max then
  retry = -1
else
  retry = rest
end
return { granted, fit - granted, retry, rest, now }
