-- LOAD reads documents of a queue. It writes nothing.
--
-- KEYS: strings, then hashes
-- ARGV:
--   1  strings  how many of the keys are strings
--
-- Reply: the time in s, the µs of it, and for each key its value and its TTL in ms, as PTTL has it. The value is a
-- string, the list of HGETALL, null, or the error of a key of another type.

local strings, time = tonumber(ARGV[1]), redis.call('TIME')
local reply = { time[1], time[2] }
for from = 1, strings, 1000 do
  local upto = math.min(from + 999, strings)
  local texts = redis.call('MGET', unpack(KEYS, from, upto))
  for i = from, upto do
    local text, ttl = texts[i - from + 1], redis.call('PTTL', KEYS[i])
    if not text and ttl ~= -2 then text = redis.error_reply('WRONGTYPE no string') end -- which MGET passes over
    reply[2 * i + 1], reply[2 * i + 2] = text, ttl
  end
end
for i = strings + 1, #KEYS do
  reply[2 * i + 1], reply[2 * i + 2] = redis.pcall('HGETALL', KEYS[i]), redis.call('PTTL', KEYS[i])
end
return reply
