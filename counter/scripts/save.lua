-- The end of every script: it writes the tombstone and the record, renews the TTL, moves the record in the index or takes it
-- out, and replies. Then the next step begins.

if exhausts then
  state, binds = 'exhausted', now + BINDS
  configured = limit > 0 and base or overridden or given
  notes = string.gsub(notes, REMOVED, '') -- of the dead letter before
  if call('HINCRBY', tombstones, 'count', 1) == 1 then call('HSET', tombstones, 'since', now) end
  call('PEXPIRE', tombstones, 2 * ttl)
elseif state == 'exhausted' then
  configured = given -- the one of its tombstone
end

if live then
  if string.find(tokens, '=e', 1, true) then -- forget the oldest uncounted attempts
    local _, ended = string.gsub(tokens, '=e', '')
    if ended > ENDED then tokens = string.gsub(tokens, ';[%w_-]+=e', '', ended - ENDED) end
  end
  if #tokens > TOKENS then tokens = '.' .. string.match(tokens, ';.*', #tokens - TOKENS + 2) end

  local member = string.sub(record, #index - 2) -- what follows "r:"
  if indexed then
    if math.abs(now - listed) >= MOVED then
      call('ZADD', index, string.format('%d', now + live), member)
      listed = now
      if not sure and call('PTTL', index) < live then call('PEXPIRE', index, 2 * live) end -- twice: rarely again
      sure = true
    end
    if not kept and now % 8 == 0 then -- one new entry in eight removes up to 24 expired ones
      local past = call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, 24)
      if #past > 0 then call('ZREM', index, unpack(past)) end
    end
  else
    call('ZREM', index, member)
    listed = 0
  end

  local line = string.format('%d %d %d %.0f %s %s %d %d %d %d %d %s %s %s %d %d %d %d ', failures, crashes, starts, fence, suspect, state, binds, due,
    wait, first_at, math.max(0, last_at - first_at), cause, open, mode, since, listed, configured, grant)
  local lengths = string.format(' %d %d %d %d\n', #id, #generation, #holder, #notes)
  call('SET', record, line .. tokens .. lengths .. id .. generation .. holder .. notes .. reason, 'PX', live == ttl and ARGV[1] or live)
end

local spent = verdict == 'EXHAUSTED' -- no other verdict needs the reason, which may be long
replies[n - 3] = { verdict, failures, crashes, limit, fence, math.max(0, due - now), spent and cause ~= '.' and cause, spent and reason }

end
end

return replies
