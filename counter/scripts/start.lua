-- START: sent before the handler runs, if the delivery is redelivered or for the second and later attempts in place.
--
-- ARGV after the common six:
--   7  mode   shared            other handlers may run in this process meanwhile
--             isolated          no other handler runs in this process until the attempt ends
--             beside-abandoned  isolated, except for handlers that were abandoned at their deadline and still run.
--                               They may kill the process too, so this attempt is opened as shared
--             untracked         do not look for crashes and open no attempt
--   8  fence  the fence that the delivery carries; 0: none. The fence of the attempt is greater
--   9  max_age  ms; a message whose last counted attempt was later than this after its first is too old; 0 or absent:
--             none is. An override replaces it
--   10 hold   hold: if the message is exhausted, it holds its queue; absent: it is dead-lettered
--   11 progress  as in record.lua; 10 without hold
--
-- Replies:
--   RUN        run the handler. The number of the attempt is failures + crashes + 1. The reply has its fence
--   WAIT       the backoff of the last failure is not over, or with `progress` the last allowed attempt waits for a
--              success of another message: wait, then START again with the same token
--   SUSPECT    (shared only) the message may have killed a process: let no other handler run, then START isolated
--              with the same token
--   EXHAUSTED  dead-letter the message without running the handler
--   HELD       (with `hold` only) the message holds its queue: pause the queue, and keep the delivery until the pause
--              ends the session. If it does not, START again with another token
--   MOVE       (with `delay` only) publish a copy with the copy number of the reply, then ack. No attempt is open
--   SUPERSEDED      (with `delay` only) ack the delivery without running the handler. No attempt is open
--
-- START isolated reserves the attempt: BEGUN (begun.lua) makes it isolated. Only START isolated or beside-abandoned
-- counts an open isolated attempt of another token as a crash: its handler had begun, and its process ran no other,
-- so no other message can have killed it. An open attempt that is shared only makes the message a suspect. So does a
-- reservation, which ends here: a late BEGUN of it finds nothing open.

local function start(r, s, q)
  local asked, now = ARGV[s.at + 7], q.now
  local isolated = asked == 'isolated' or asked == 'beside-abandoned'
  local oldest = q.max_age or s.width > 8 and tonumber(ARGV[s.at + 9]) or 0
  local holds_queue = s.width > 9 and ARGV[s.at + 10] == 'hold' and r.state ~= 'skip'
  local with = s.at + (s.width > 10 and ARGV[s.at + 10] == 'hold' and 11 or 10)
  local progress = s.width > 9 and match(ARGV[with], '^progress .*')
  local delay = s.width > 9 and match(ARGV[s.at + s.width], '^delay .*')
  if delay then
    copies(r, s, delay)
  elseif r.top then
    r.body, s.changed = 'x', true -- the body that this consumer has is not known
  end

  local earlier = s.age >= 0 and r.binds - BINDS <= now - s.age -- the tombstone or the success, than this delivery
  if s.superseded then
    if r.open == s.token then r.open, r.mode, s.changed = '.', '.', true end
    return 'SUPERSEDED', s.changed and q.ttl
  elseif r.state == 'exhausted' and (now < r.binds + 0 or r.top and r.body == s.body) and not earlier then
    r.binds = format('%d', now + BINDS) -- its dead-lettering may be held again
    return 'EXHAUSTED', q.ttl
  elseif r.open == s.token or s.known then -- our reply was lost; or this START is late, and opens nothing
    return 'RUN', s.changed and q.ttl
  elseif r.state == 'exhausted' or r.state == 'done' and earlier then -- this is a new use of the id
    rarely().renew(r, s)
  elseif r.state == 'done' then -- the ack was lost. binds keeps that the message was handled
    r.state, r.suspect, r.open, r.mode = '.', '0', '.', '.'
  end

  local left = min(r.due - now, r.wait + 0)
  if s.copy and left <= s.above then stay(r, s) end
  if r.mode == 'reserved' and asked ~= 'untracked' then -- its handler did not begin, and must not from now on
    r.tokens = r.tokens .. ';' .. r.open .. '=e'
    r.suspect, r.open, r.mode = '1', '.', '.'
  end
  local runs = s.copy and s.copy > 0 and r.open ~= '.' and min(r.since, now) + s.lease - now or 0
  if runs <= 0 and isolated and r.mode == 'isolated' then -- its process died
    r.crashes, r.binds = format('%d', r.crashes + 1), '0'
    r.tokens = r.tokens .. ';' .. r.open .. '=c'
    count(r, q, 'crashed', 'the process died while this message ran isolated', r.open, r.consumer, '')
    r.open, r.mode = '.', '.'
  end

  local failed = r.failures + r.crashes
  local spent = failed >= s.limit and r.binds == '0' -- else it was handled, and no attempt was counted since
  if progress and oldest > 0 then oldest = oldest + rarely().outage(r, s, q, progress) end
  local old = oldest > 0 and r.last + 0 > oldest and failed > 0 and r.own == '0' and r.binds == '0'
  local code, keep = nil, q.ttl
  if runs > 0 then -- perhaps at another copy
    code, s.rest = 'WAIT', min(runs, POLL)
  elseif holds_queue and r.state == 'held' then
    code = 'HELD'
  elseif holds_queue and spent then
    code = hold(r, r.cause)
  elseif holds_queue and old then
    code = hold(r, 'too-old')
  elseif spent or r.state == 'skip' or r.state == 'held' then
    code = exhaust(r, s, q)
  elseif old then
    r.cause = 'too-old'
    code = exhaust(r, s, q)
  elseif left > 0 then
    code = 'WAIT'
    if s.copy and left > s.above and (r.top or 0) < COPIES then code = rarely().move(r, s, q, code, true) end
  elseif progress and rarely().awaits(r, s, q, progress) then
    code = 'WAIT'
  elseif asked == 'shared' and (r.suspect == '1' or r.open ~= '.') then
    code, r.suspect = 'SUSPECT', '1'
  else
    code = 'RUN'
    r.starts = format('%d', r.starts + 1)
    if isolated then r.suspect = '1' end -- perhaps only this process knows
    r.fence = format('%.0f', max(r.fence + 1, ARGV[s.at + 8] + 1, q.time[1] * 1000000 + q.time[2]))
    if asked ~= 'untracked' or s.copy and s.copy > 0 then -- of copies one runs at a time
      if r.open ~= '.' and asked ~= 'untracked' then r.suspect = '1' end -- it is overwritten, but not forgotten
      r.open, r.mode, r.since = s.token, asked == 'isolated' and 'reserved' or 'shared', q.at
    end
  end
  if code == 'HELD' then keep = max(keep, PAUSED) end
  return code, keep
end

return take(function(r, s, q)
  local code, keep = start(r, s, q)
  if r.open == '.' or r.open == s.token then r.consumer = s.consumer end -- else it stays that of the open attempt
  return code, keep
end)
