-- Puts one gate's message among those of all gates, and answers what the others put there since this gate last read.
-- Messages are kept for a short time of this store's clock.
--
-- KEYS[1]  the messages, a stream: of each its sender (n) and its bytes (m).
-- ARGV     milliseconds and number of the last message that was read; milliseconds that messages are kept; how many are answered
--          at most; the sender; the message.
-- Answers  now in milliseconds, the number of the last message read as two numbers, 1 if there are more, then of each message by
--          another the milliseconds of its coming, and its bytes.
if #KEYS == 0 then return 0 end -- only to be kept, before it is needed
local millis, number, kept, most = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local function text(number) return string.format('%.0f', number) end
local function parts(id)
  local a, b = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(a), tonumber(b)
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local own = redis.call('XADD', KEYS[1], 'MINID', '=', text(math.max(0, now - kept)), '*', 'n', ARGV[5], 'm', ARGV[6])
redis.call('PEXPIRE', KEYS[1], text(2 * kept))

-- a store that was emptied, or whose clock is behind the one before it, begins to count anew
if parts(own) < millis then millis, number = 0, 0 end
local found = redis.call('XRANGE', KEYS[1], text(millis) .. '-' .. text(number + 1), '+', 'COUNT', text(most))
local answer = { now, millis, number, #found == most and 1 or 0 }
for _, entry in ipairs(found) do
  answer[2], answer[3] = parts(entry[1])
  if entry[2][2] ~= ARGV[5] then
    answer[#answer + 1] = answer[2]
    answer[#answer + 1] = entry[2][4]
  end
end
return answer
