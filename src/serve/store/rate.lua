-- One question of a rate: at most burst + rate * t in every interval of length t, by this store's clock.
-- The same as `grant` in src/limiter/cluster/promise.rs, number by number; all numbers are whole and below 2^53.
--
-- KEYS[1]  the key. Its value: '1 COST DEBT STAMP', where 1 is the format; gone when no debt is left.
-- ARGV     COST: what one unit adds to the debt; DRAIN: what leaves it per tick; TICK: microseconds per tick;
--          BURST: the most units of debt; WANTED and LEAST: units asked for.
-- Answers  units granted, units left, microseconds until LEAST fits (0 of a grant, -1 never), -1, now in microseconds.
if #KEYS == 0 then return 0 end -- only to be kept, before it is needed
local cost, drain, tick = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local burst, wanted, least = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local EXACT = 2 ^ 53
local MOST = 2 ^ 52 -- of debt
local LONGEST = 34560000000 -- 400 days in milliseconds

local function ceil(a, b)
  local q = math.floor(a / b)
  if q * b < a then q = q + 1 end
  return q
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local full = burst * cost
local debt, owed, stamp, back = 0, 0, now, false

local state = redis.call('GET', KEYS[1])
if state then
  local c, d, s = string.match(state, '^1 (%d+) (%d+) (%d+)$')
  if not c then return redis.error_reply('ERR tidegate does not know this format') end
  c, debt, stamp = tonumber(c), tonumber(d), tonumber(s)
  if c ~= cost then
    -- the policy's numbers have changed: the same units of debt, rounded up
    local units = math.floor(debt / c)
    local rest = debt - units * c
    if units >= math.floor(MOST / cost) then
      debt = MOST
    else
      local part = rest * cost
      if part < EXACT then
        part = ceil(part, c)
      else
        part = math.min(cost, math.floor(rest / c * cost) + 2)
      end
      debt = units * cost + part
    end
  end
  -- no more is owed than these numbers know; the rest stays, as other gates may still have those that it was made with
  owed = math.min(debt, full)
  if now < stamp then
    -- the clock has stepped back: no time has passed, and it goes on from here
    stamp, back = now, true
  else
    local ticks = math.floor((now - stamp) / tick)
    if ticks >= ceil(owed, drain) then owed = 0 else owed = owed - ticks * drain end
    if ticks >= ceil(debt, drain) then
      debt, stamp = 0, now
    else
      debt, stamp = debt - ticks * drain, stamp + ticks * tick
    end
  end
end

local fit = 0
if owed < full then fit = math.floor((full - owed) / cost) end
local granted = math.min(wanted, fit)
if granted < least then granted = 0 end

local retry = 0
if granted > 0 then
  debt = debt + granted * cost
elseif least > burst then
  retry = -1
else
  retry = math.min(ceil(owed - (burst - least) * cost, drain) * tick, EXACT) - (now - stamp)
end

if granted > 0 or back then
  local drained = math.min(ceil(debt, drain) * tick, EXACT) - (now - stamp)
  local px = math.max(1, math.min(ceil(drained, 1000), LONGEST))
  local value = string.format('1 %.0f %.0f %.0f', cost, debt, stamp)
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', px))
end
return { granted, fit - granted, retry, -1, now }
