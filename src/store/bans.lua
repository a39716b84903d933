-- Keeps what gates that have one secret know of bans: one sealed text, which only they read. Its first twelve bytes are random, so they
-- are another with each text.
--
-- KEYS[1]  the text.
-- ARGV     how long to keep it, in milliseconds; the first twelve bytes of the text that the gate knows, nothing if it knows none; the
--          text to keep instead, nothing if there is none.
-- Answers  1 if the text is the one that the gate knows, which then is replaced; otherwise 0 and the text.
local kept = redis.call('GET', KEYS[1]) or ''
if string.sub(kept, 1, 12) ~= ARGV[2] then return { 0, kept } end
if ARGV[3] ~= '' then redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[1]) end
return { 1 }
