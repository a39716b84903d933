-- One question of a quota whose windows slide: at most MAX per window, and of the window before as much counts as this one has yet to come.
-- The same as `grant` in crates/limits/src/limiter/sharing/promise.rs, number by number; all numbers are whole and below 2^53.
--
-- KEYS[1]  the key; gone two windows after its last one began. Its value: '1 WINDOW INDEX COUNT BEFORE', where 1 is the format.
-- ARGV     WINDOW: microseconds; MAX: units per window; WANTED and LEAST: units asked for; with a LEAST of 0 nothing is asked, but
--          told: WANTED more are charged, or come back if that is negative, of the window that ends at ENDS; ENDS.
-- Answers  units granted, units left, microseconds until LEAST fits (0 of a grant, -1 never),
--          microseconds until the window ends, now in microseconds.
if #KEYS == 0 then return 0 end -- only to be kept, before it is needed
local window, max = tonumber(ARGV[1]), tonumber(ARGV[2])
local wanted, least, told = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local TICKS = 2 ^ 20

local function ceil(a, b)
  local q = math.floor(a / b)
  if q * b < a then q = q + 1 end
  return q
end

local function floor(a, b)
  local q = math.floor(a / b)
  if q * b > a then q = q - 1 end
  return q
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local index, count, before = floor(now, window), 0, 0

local state = redis.call('GET', KEYS[1])
if state then
  local w, i, c, b = string.match(state, '^1 (%d+) (%d+) (%d+) (%d+)$')
  if not w then return redis.error_reply('ERR tidegate does not know this format') end
  w, i, c, b = tonumber(w), tonumber(i), tonumber(c), tonumber(b)
  if w ~= window then
    -- of a policy that has changed: what was taken in a window that has not ended counts
    if (i + 1) * w > now then count = c end
  elseif i >= index then
    -- a later window than now's: the clock has stepped back, and that window is not begun twice
    index, count, before = i, c, b
  elseif i + 1 == index then
    before = c
  end
end

local tick = ceil(window, TICKS)
local ticks = floor(window, tick)
local rest = (index + 1) * window - now
local weight = ceil(before * math.min(ticks, ceil(rest, tick)), ticks)
local fit = math.max(0, max - count - weight)
local granted = math.min(wanted, fit)
if granted < least or least == 0 then granted = 0 end

local change = granted > 0
if least == 0 and (wanted > 0 or told == now + rest) then
  change, count = true, math.max(0, count + wanted)
elseif least == 0 and told == now + rest - window then
  change, before = true, math.max(0, before + wanted)
end

-- how many ticks before a window's end so much of the one before it leaves room for the least; 0 in none
local function opens(taken, earlier)
  local room = max - taken - least
  if room < 0 then return 0 end
  if earlier == 0 then return ticks end
  return math.min(ticks, floor(room * ticks, earlier))
end

local retry = 0
if change then
  local px = ceil(rest + window, 1000)
  local value = string.format('1 %.0f %.0f %.0f %.0f', window, index, count + granted, before)
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', px))
elseif least == 0 then
  retry = -1
elseif least > max then
  retry = -1
else
  local left = opens(count, before)
  if left > 0 then
    retry = rest - left * tick
  else
    left = opens(0, count)
    if left == ticks then retry = rest else retry = rest + window - left * tick end
  end
end
return { granted, fit - granted, retry, rest, now }
