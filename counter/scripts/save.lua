-- SAVE makes a change to a queue as a whole. If one of its documents is not as it was read, SAVE does nothing.
--
-- A document is a string, or a hash whose text is the name and the value of each field, by name, every one after its
-- length and a colon. Times are ms since 1970; 0: never.
--
-- KEYS: those of the documents, sums and sets, in the order in which the arguments have them
-- ARGV:
--   how many documents, and for each: string or hash; write, replace or compare; the text that was read, empty if there
--     was none; the text to write, empty to remove it; when it expires. replace does not compare, and
--     compare does not write
--   how many sums, and for each: the field of a hash, the number to add, and until when the hash is kept at least
--   for each member of a set: its name, empty to move none; its score, empty to remove it; and until when the set is
--     kept at least
--
-- Reply: 1 if the change was made, else 0

local a, k = 0, 0
local function arg() a = a + 1; return ARGV[a] end
local function key() k = k + 1; return KEYS[k] end

-- fields reads the text of a hash, as HSET takes it.
local function fields(data)
  local out, at = {}, 1
  while at <= #data do
    local _, ends, length = string.find(data, '^(%d+):', at)
    out[#out + 1] = string.sub(data, ends + 1, ends + length)
    at = ends + length + 1
  end
  return out
end

-- differs reports whether a document is not as it was read. It compares the fields of a hash without an order, because
-- that of Lua depends on the locale of the server.
local function differs(at, kind, was)
  if kind == 'string' then return (redis.call('GET', at) or '') ~= was end
  local flat, wanted, kept = redis.call('HGETALL', at), fields(was), {}
  for i = 1, #flat, 2 do kept[flat[i]] = flat[i + 1] end
  for i = 1, #wanted, 2 do
    if kept[wanted[i]] ~= wanted[i + 1] then return true end
  end
  return #flat ~= #wanted
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- expire lets a key expire at a time.
local function expire(at, expires) redis.call('PEXPIRE', at, string.format('%d', expires - now)) end

-- keep makes a key outlive a time.
local function keep(at, expires)
  if redis.call('PTTL', at) < expires - now then expire(at, expires) end
end

local docs = {}
for i = 1, tonumber(arg()) do
  local d = { key = key() }
  d.kind, d.act, d.was, d.data, d.expires = arg(), arg(), arg(), arg(), arg()
  if d.act ~= 'replace' and differs(d.key, d.kind, d.was) then return 0 end
  docs[i] = d
end
for _, d in ipairs(docs) do
  if d.act ~= 'compare' then
    if d.data == '' or d.kind == 'hash' then redis.call('DEL', d.key) end
    if d.data ~= '' and d.kind == 'hash' then redis.call('HSET', d.key, unpack(fields(d.data))) end
    if d.data ~= '' and d.kind == 'string' then redis.call('SET', d.key, d.data) end
    if d.data ~= '' and d.expires ~= '0' then expire(d.key, d.expires) end
  end
end
for _ = 1, tonumber(arg()) do
  local at, field, by, expires = key(), arg(), arg(), arg()
  redis.call('HINCRBY', at, field, by)
  keep(at, expires)
end
while k < #KEYS do
  local set, name, score, expires = key(), arg(), arg(), arg()
  if score == '' then
    redis.call('ZREM', set, name)
  else
    if name ~= '' then redis.call('ZADD', set, score, name) end
    keep(set, expires)
  end
end
return 1
