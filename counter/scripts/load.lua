-- LOAD reads documents of a queue. It writes nothing.
--
-- KEYS: the documents
-- ARGV: for each of them the command that reads it, GET or HGETALL
--
-- Reply: the time in s, and the µs of it. Then for each key the reply to its command, which may be an error, and the
-- reply of PTTL.

local reply = redis.call('TIME')
for i, key in ipairs(KEYS) do
  reply[2 * i + 1], reply[2 * i + 2] = redis.pcall(ARGV[i], key), redis.call('PTTL', key)
end
return reply
