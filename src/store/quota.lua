-- One question of a quota: at most MAX per window, windows aligned to this store's clock.
-- The same as `grant` in crates/limits/src/limiter/cluster/promise.rs, number by number; all numbers are whole and below 2^53.
--
-- KEYS[1]  the key; gone when the window ends. Its value: '1 WINDOW INDEX COUNT', or '2 BEGINS ENDS COUNT' of a window of the
--          calendar, where 1 and 2 are the formats.
-- ARGV     WINDOW: microseconds, 0 of the calendar; MAX: units per window; WANTED and LEAST: units asked for; with a LEAST of 0
--          nothing is asked, but told: WANTED more are charged, or come back if that is negative and the window
--          ends at ENDS; ENDS; of the calendar, when three windows begin and the last one ends, in microseconds since 1970.
-- Answers  units granted, units left, microseconds until LEAST fits (0 of a grant, -1 never),
--          microseconds until the window ends, now in microseconds.
if #KEYS == 0 then return 0 end -- only to be kept, before it is needed
local window, max = tonumber(ARGV[1]), tonumber(ARGV[2])
local wanted, least, told = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local begins, ends, count
if window > 0 then
  begins = now - now % window
  ends = begins + window
  count = 0
else
  for i = 6, 8 do
    if tonumber(ARGV[i]) <= now and now < tonumber(ARGV[i + 1]) then
      begins, ends, count = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), 0
    end
  end
  if not begins then return redis.error_reply('ERR the clocks of tidegate and the store are too far apart') end
end

local state = redis.call('GET', KEYS[1])
if state then
  local format, a, b, c = string.match(state, '^([12]) (%d+) (%d+) (%d+)$')
  if not format then return redis.error_reply('ERR tidegate does not know this format') end
  a, b, c = tonumber(a), tonumber(b), tonumber(c)
  local same = (format == '1') == (window > 0)
  if format == '1' then
    same = same and a == window
    a, b = b * a, (b + 1) * a
  end
  if b > now then
    -- this window, or one of a policy that has changed, which has not ended: what was taken in it counts
    count = c
    -- a later window than now's: the clock has stepped back, and that window is not begun twice
    if same and a > now then begins, ends = a, b end
  end
end

local fit = math.max(0, max - count)
local granted = math.min(wanted, fit)
if granted < least or least == 0 then granted = 0 end
local rest = ends - now

local retry, change = 0, granted
if least == 0 and (wanted > 0 or ends == told) then change = math.max(wanted, -count) end
if granted > 0 or (least == 0 and (wanted > 0 or ends == told)) then
  local px = math.ceil(rest / 1000)
  local value
  if window > 0 then
    value = string.format('1 %.0f %.0f %.0f', window, begins / window, count + change)
  else
    value = string.format('2 %.0f %.0f %.0f', begins, ends, count + change)
  end
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', px))
elseif least == 0 then
  retry = -1
elseif least > max then
  retry = -1
else
  retry = rest
end
return { granted, fit - granted, retry, rest, now }
