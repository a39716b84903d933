-- One question of a rate: at most burst + rate * t in every interval of length t, by this store's clock, of each tier by itself.
-- The same as `grant` in crates/limits/src/limiter/cluster/promise.rs, number by number; all numbers are whole and below 2^53.
--
-- KEYS[1]  the key. Its value: '1 COST DEBT STAMP', where 1 is the format, of a limit without tiers; else '2' and for the limit's
--          own numbers, which are tier 0, and each tier ' ID COST DEBT STAMP ENDS'. Gone when no tier has a debt left.
-- ARGV     WANTED and LEAST: units asked for; with a LEAST of 0 nothing is asked, but told: WANTED more are charged, or come back
--          if that is negative; ASKED: by which of the following, from 1; BURSTS: how many bursts of a debt count; then
--          for the limit's own numbers and each tier ID, COST: what one unit adds to the debt, DRAIN: what leaves it per tick, TICK: microseconds per tick,
--          BURST: the most units of debt.
-- Answers  units granted, units left, microseconds until LEAST fits (0 of a grant, -1 never), -1, now in microseconds.
if #KEYS == 0 then return 0 end -- only to be kept, before it is needed
local wanted, least, asked = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local bursts = tonumber(ARGV[4])
local EXACT = 2 ^ 53
local MOST = 2 ^ 52 -- of debt
local LONGEST = 34560000000 -- 400 days in milliseconds

local function ceil(a, b)
  local q = math.floor(a / b)
  if q * b < a then q = q + 1 end
  return q
end

-- the same units of debt at another cost, rounded up
local function converted(debt, was, cost)
  if was == cost then return debt end
  local units = math.floor(debt / was)
  local rest = debt - units * was
  if units >= math.floor(MOST / cost) then return MOST end
  local part = rest * cost
  if part < EXACT then
    part = ceil(part, was)
  else
    part = math.min(cost, math.floor(rest / was * cost) + 2)
  end
  return units * cost + part
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local kept, order = {}, {}
local function keep(id, cost, debt, stamp, ends)
  kept[id] = { id = id, cost = tonumber(cost), debt = tonumber(debt), stamp = tonumber(stamp), ends = tonumber(ends) }
  order[#order + 1] = kept[id]
end
local state = redis.call('GET', KEYS[1])
if state then
  local cost, debt, stamp = string.match(state, '^1 (%d+) (%d+) (%d+)$')
  local read = -1 -- characters
  if cost then
    keep('0', cost, debt, stamp, 0)
    read = #state
  elseif string.sub(state, 1, 2) == '2 ' then
    read = 1
    for id, c, d, s, e in string.gmatch(state, ' (%d+) (%d+) (%d+) (%d+) (%d+)') do
      keep(id, c, d, s, e)
      read = read + 5 + #id + #c + #d + #s + #e
    end
  end
  if read ~= #state then return redis.error_reply('ERR tidegate does not know this format') end
end

local tiers, changed = {}, false
for at = 5, #ARGV - 4, 5 do
  local cost, drain, tick = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local burst = tonumber(ARGV[at + 4])
  local full = burst * cost
  local most = math.min(full * bursts, MOST)
  local debt, owed, stamp = 0, 0, now
  local was, own = kept[ARGV[at]], tiers[1]
  if was then
    was.known = true
    debt, stamp = converted(was.debt, was.cost, cost), was.stamp
    -- no more is owed than these numbers know; the rest stays, as other gates may still have those that it was made with
    owed = math.min(debt, most)
    if now < stamp then
      -- the clock has stepped back: no time has passed, and it goes on from here
      stamp, changed = now, true
    else
      local ticks = math.floor((now - stamp) / tick)
      if ticks >= ceil(owed, drain) then owed = 0 else owed = owed - ticks * drain end
      if ticks >= ceil(debt, drain) then
        debt, stamp = 0, now
      else
        debt, stamp = debt - ticks * drain, stamp + ticks * tick
      end
    end
  elseif own and own.debt > 0 then
    -- a tier that this key has not met: it begins with what is owed by the limit's own numbers
    debt, changed = converted(own.debt, own.cost, cost), true
    owed = math.min(debt, most)
  end
  tiers[#tiers + 1] = {
    id = ARGV[at], cost = cost, drain = drain, tick = tick, burst = burst,
    full = full, most = most, debt = debt, owed = owed, stamp = stamp,
  }
end

-- the debt of a tier that takes note of units of another: up to all that it has
local function noted(tier, units)
  if units >= tier.burst then return math.max(tier.debt, tier.full) end
  return math.max(tier.debt, math.min(tier.debt + units * tier.cost, tier.full))
end

local judged = tiers[asked]
local fit = 0
if judged.owed < judged.full then fit = math.floor((judged.full - judged.owed) / judged.cost) end
local granted = math.min(wanted, fit)
if granted < least or least == 0 then granted = 0 end

local retry = 0
if granted > 0 then
  for at, tier in ipairs(tiers) do
    if at == asked then tier.debt = tier.debt + granted * tier.cost else tier.debt = noted(tier, granted) end
  end
elseif least == 0 then
  changed = true
  for at, tier in ipairs(tiers) do
    if wanted > 0 and at ~= asked then
      tier.debt = noted(tier, wanted)
    elseif at == asked and wanted > 0 then
      tier.debt = math.max(tier.debt, math.min(tier.debt + wanted * tier.cost, tier.most))
    elseif at == asked then
      -- of the others nothing comes back: else a client could pay its debts in one by requests in another
      tier.debt = math.max(0, tier.debt + wanted * tier.cost)
    end
  end
elseif least > judged.burst then
  retry = -1
else
  local over = judged.owed - (judged.burst - least) * judged.cost
  retry = math.min(ceil(over, judged.drain) * judged.tick, EXACT) - (now - judged.stamp)
end

if granted > 0 or changed then
  local records, longest = '', 0
  for _, tier in ipairs(tiers) do
    local drained = math.min(ceil(tier.debt, tier.drain) * tier.tick, EXACT) - (now - tier.stamp)
    longest = math.max(longest, drained)
    local record = string.format(' %.0f %.0f %.0f %.0f', tier.cost, tier.debt, tier.stamp, now + drained)
    records = records .. ' ' .. tier.id .. record
  end
  local more = #tiers > 1
  for _, was in ipairs(order) do
    -- of gates with other tiers
    if not was.known and was.ends > now then
      more, longest = true, math.max(longest, was.ends - now)
      records = records .. string.format(' %s %.0f %.0f %.0f %.0f', was.id, was.cost, was.debt, was.stamp, was.ends)
    end
  end
  local px = math.max(1, math.min(ceil(longest, 1000), LONGEST))
  local value = '2' .. records
  if not more then value = string.format('1 %.0f %.0f %.0f', tiers[1].cost, tiers[1].debt, tiers[1].stamp) end
  redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', px))
end
return { granted, fit - granted, retry, -1, now }
