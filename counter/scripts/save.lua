-- The end of every script: it writes the tombstone and the record, renews the TTL, moves the record in the index or in dead or takes
-- it out, and replies. Then the next step begins.

local told = reason -- of the attempt
if exhausts then
  if state == 'skip' then -- the note is the first
    local _, ends, by_size, why_size = string.find(notes, '^skip %d+ (%d+) (%d+)\n')
    cause, reason, last_at = 'skipped', string.sub(notes, ends + by_size + 1, ends + by_size + why_size), now
    if first_at == 0 then first_at = now end
  end
  state, binds = 'exhausted', now + BINDS
  configured = limit > 0 and base or overridden or given
  notes = string.gsub(notes, REMOVED, '') -- of the dead letter before
  if call('HINCRBY', tombstones, 'count', 1) == 1 then call('HSET', tombstones, 'since', now) end
  call('PEXPIRE', tombstones, 2 * ttl)
elseif state == 'exhausted' then
  configured = given -- the one of its tombstone
end

if held then
  local paused, message, only = unpack(call('HMGET', pause, 'paused', 'message', 'only'))
  if message ~= member then call('HSET', pause, 'message', member, 'id', id, 'generation', generation, 'since', now) end
  call('HSET', pause, 'cause', held)
  if paused ~= '1' or only == '1' and message ~= member then
    call('HSET', pause, 'paused', '1', 'only', '1', 'by', ARGV[arg + 4], 'at', now, 'why',
      string.format('a message is exhausted after %d failed attempt%s (%s): give it a higher limit or skip it', failures + crashes, failures + crashes == 1 and '' or 's', held))
  end
  call('PEXPIRE', pause, PAUSED)
  live, indexed = ttl, true
elseif freed_why and call('HGET', pause, 'message') == member then
  if call('HGET', pause, 'only') == '1' then call('HSET', pause, 'paused', '0', 'by', freed_by, 'at', now, 'why', freed_why) end
  call('HDEL', pause, 'message', 'id', 'generation', 'cause', 'since', 'only')
end

if live and verdict == 'HELD' then live = math.max(ttl, PAUSED) end

if live then
  if unnoted then history = string.gsub(history, '\nc%d+\t' .. string.gsub(unnoted, '%-', '%%-') .. '\t[^\n]*', '') end
  if noted then
    local line = string.sub(string.gsub(string.match(told, '[^\r\n]+') or '', '\t', ' '), 1, LINE)
    if #line == LINE then line = string.gsub(line, '[\192-\255][\128-\191]*$', '') end -- no part of a character
    local by = string.sub(string.gsub(noted_by, '[\t\r\n]', ' '), 1, LINE)
    if noted == 'c' and not saw then line = '' end
    history = string.format('\n%s%d\t%s\t', noted, math.max(0, now - first_at), lasted) .. by .. '\t' .. line .. history
    local _, count = string.gsub(history, '\n', '')
    if count > NOTED then history = string.match(history, '^' .. string.rep('\n[^\n]*', NOTED)) end
  end

  if string.find(tokens, '=e', 1, true) then -- forget the oldest uncounted attempts
    local _, ended = string.gsub(tokens, '=e', '')
    if ended > ENDED then tokens = string.gsub(tokens, ';[%w_-]+=e', '', ended - ENDED) end
  end
  if #tokens > TOKENS then tokens = '.' .. string.match(tokens, ';.*', #tokens - TOKENS + 2) end

  local set, moves = indexed and index, held and 0 or MOVED
  if state == 'exhausted' then
    set, moves = dead, exhausts and 0 or ttl / 8
    if string.find(notes, REMOVED) then set = false end
  end
  local former = listed > 0 and was == 'exhausted' and dead or (listed > 0 or not kept) and index -- an expired record may be in it
  if former and former ~= set then
    call('ZREM', former, member)
    listed = 0
  end
  if set and (math.abs(now - listed) >= moves or live > ttl) then -- a lease may outlast the entry and its set
    call('ZADD', set, string.format('%d', now + live), member)
    if set == index or exhausts or listed == 0 then listed = now end -- of a tombstone it stays the time of death
    if (sure ~= set or live > ttl) and call('PTTL', set) < live * 1.25 then call('PEXPIRE', set, 2 * live) end -- twice: rarely again
    sure = set
  end
  if set and (exhausts or not kept) and now % 8 == 0 then -- one new entry in eight removes up to 24 expired ones
    local past = call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, 24)
    if #past > 0 then call('ZREM', set, unpack(past)) end
  end

  local line = string.format('%d %d %d %.0f %s %s %d %d %d %d %d %s %s %s %d %d %d %d %d ', failures, crashes, starts, fence, suspect, state, binds, due,
    wait, first_at, math.max(0, last_at - first_at), cause, open, mode, since, listed, configured, own, firsts)
  local lengths = string.format(' %d %d %d %d %d', #id, #generation, #holder, #notes, #history)
  lengths = lengths .. (top > 0 and string.format(' %d:%d:%d:%s:%s\n', hop, top, until_at, mover, body) or '\n')
  call('SET', record, line .. tokens .. lengths .. id .. generation .. holder .. notes .. history .. reason, 'PX', live == ttl and ARGV[1] or live)
end

if verdict == 'HELD' and not held and call('HGET', pause, 'message') == member then -- an earlier step decided it
  held = call('HGET', pause, 'cause')
end
local spent = verdict == 'EXHAUSTED' or verdict == 'HELD' -- no other verdict needs the reason, which may be long
replies[n - 4] = { verdict, failures, crashes, limit, fence, rest or math.max(0, due - now), held or spent and cause ~= '.' and cause, spent and reason, double and 1 or 0, carried and top }

end
end

return replies
