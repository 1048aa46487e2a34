-- START: sent before the handler runs, if the delivery is redelivered or for the second and later attempts in place.
--
-- ARGV after the common six:
--   7  mode   shared            other handlers may run in this process meanwhile
--             isolated          no other handler runs in this process until the attempt ends
--             beside-abandoned  isolated, except for handlers that were abandoned at their deadline and still run. They may
--                               kill the process too, so this attempt is opened as shared
--             untracked         do not look for crashes and open no attempt
--   8  floor  the fence that the delivery carries; 0: none. The fence of the attempt is greater
--
-- Verdicts:
--   RUN        run the handler. The number of the attempt is failures + crashes + 1. The reply has its fence
--   WAIT       the backoff of the last failure is not over: wait, then START again with the same token
--   SUSPECT    (shared only) the message may have killed a process: let no other handler run, then START isolated with the
--              same token
--   EXHAUSTED  dead-letter the message without running the handler
--
-- Only START isolated or beside-abandoned counts an open isolated attempt of another token as a crash: its process ran no
-- other handler, so no other message can have killed it. An open shared attempt only makes the message a suspect.

local asked, floor = ARGV[arg + 7], tonumber(ARGV[arg + 8])
local isolated = asked == 'isolated' or asked == 'beside-abandoned'

if state == 'exhausted' and now < binds and not earlier then
  verdict = 'EXHAUSTED'
  binds, live = now + BINDS, ttl -- its dead-lettering may be held again
elseif open == token or known then -- our reply was lost; or this START is late, and opens nothing
  verdict = 'RUN'
else
  if state == 'exhausted' or state == 'done' and earlier then -- this is a new use of the id
    failures, crashes, due, wait, suspect, state, binds = 0, 0, 0, 0, '0', '.', 0
    first_at, last_at, cause, reason, open, mode = 0, 0, '.', '', '.', '.'
    limit, grant, notes, history, firsts = base, 0, '', '', 0
    tokens = string.gsub(tokens, '=[fc]', '=e') -- they stay, so that their late steps are not counted here
  elseif state == 'done' then -- the ack was lost: the same limit and no open attempt. binds keeps that it was handled
    state, suspect, open, mode = '.', '0', '.', '.'
  end

  if isolated and mode == 'isolated' then -- its process died
    crashes = crashes + 1
    tokens = tokens .. ';' .. open .. '=c'
    if first_at == 0 then first_at = now end
    last_at, cause, reason = now, 'crashed', 'the process died while this message ran isolated'
    noted, lasted, noted_by = 'c', open, string.sub(kept, holder_at, notes_at - 1)
    open, mode, binds = '.', '.', 0
  end

  if failures + crashes >= limit and binds == 0 or state == 'skip' then
    verdict = 'EXHAUSTED'
    exhausts = true
  elseif due > now then
    verdict = 'WAIT'
  elseif asked == 'shared' and (suspect == '1' or open ~= '.') then
    verdict = 'SUSPECT'
    suspect = '1'
  else
    verdict = 'RUN'
    starts, fence = starts + 1, math.max(fence + 1, floor + 1, micros)
    if asked ~= 'untracked' then
      if open ~= '.' then suspect = '1' end -- it is overwritten, but not forgotten
      open, mode, since = token, asked == 'isolated' and asked or 'shared', now
    end
  end
  if kept or verdict == 'RUN' then live, indexed = ttl, true end
end
if kept and open ~= '.' and open ~= token then holder = string.sub(kept, holder_at, notes_at - 1) end -- stays that of the open attempt
