-- Lends places of a key, at most MAX at once, each for a time: between one and two lives by this store's clock.
-- The same as `lend` in crates/limits/src/limiter/sharing/places.rs, number by number; all numbers are whole and below 2^53.
--
-- KEYS[1]  the key; gone when its last place ends. Its value: '1 EPOCH LENT BEFORE', where 1 is the format: an epoch is a life, and places
--          are counted in the one in which they were lent.
-- ARGV     LIFE: microseconds; MAX: places; LEND: 0 none, 1 one if there is room, 2 one anew, whether there is room or not; ENDS: when
--          the place that is given back first was to end, 0 for none.
-- Answers  places lent, places left, 0 or -1 if none was lent, microseconds until the place ends, now in microseconds.
if #KEYS == 0 then return 0 end -- only to be kept, before it is needed
local life, max, lend, ends = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local epoch, lent, before = math.floor(now / life), 0, 0

local state = redis.call('GET', KEYS[1])
if state then
  local e, l, b = string.match(state, '^1 (%d+) (%d+) (%d+)$')
  if not e then return redis.error_reply('ERR tidegate does not know this format') end
  e, l, b = tonumber(e), tonumber(l), tonumber(b)
  if e >= epoch then
    -- a later epoch than now's: the clock has stepped back, and no place is forgotten for that
    epoch, lent, before = e, l, b
  elseif e + 1 == epoch then
    before = l
  end
end

if ends == (epoch + 2) * life then
  lent = math.max(0, lent - 1)
elseif ends == (epoch + 1) * life then
  before = math.max(0, before - 1)
end
local granted, retry = 0, -1
if lend == 2 or (lend == 1 and max - lent - before > 0) then
  granted, retry = 1, 0
  lent = lent + 1
end
local rest = (epoch + 2) * life - now

if granted > 0 or ends > 0 then
  local px = 1
  if lent + before > 0 then px = math.ceil(rest / 1000) end
  local value = string.format('1 %.0f %.0f %.0f', epoch, lent, before)
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', px))
end
return { granted, math.max(0, max - lent - before), retry, rest, now }
