-- START: sent before the handler runs, if the delivery is redelivered or for the second and later attempts in place.
--
-- ARGV after the common six:
--   7  mode   shared            other handlers may run in this process meanwhile
--             isolated          no other handler runs in this process until the attempt ends
--             beside-abandoned  isolated, except for handlers that were abandoned at their deadline and still run. They may
--                               kill the process too, so this attempt is opened as shared
--             untracked         do not look for crashes and open no attempt
--   8  floor  the fence that the delivery carries; 0: none. The fence of the attempt is greater
--   9  max_age  ms; a message whose last counted attempt was later than this after its first is too old; 0 or absent: none is.
--             An override replaces it
--   10 crash  "crash " and how the process of the last attempt at this delivery died, as the consumer saw it; empty or absent: it
--             saw nothing
--   11 hold   hold: if the message is exhausted, it holds its queue; absent: it is dead-lettered
--
-- Verdicts:
--   RUN        run the handler. The number of the attempt is failures + crashes + 1. The reply has its fence
--   WAIT       the backoff of the last failure is not over: wait, then START again with the same token
--   SUSPECT    (shared only) the message may have killed a process: let no other handler run, then START isolated with the
--              same token
--   EXHAUSTED  dead-letter the message without running the handler
--   HELD       (with `hold` only) the message holds its queue, which is paused: keep the delivery until the pause ends the session, and
--              START again with another token meanwhile, once a second
--   MOVE       (with `later` only) publish a copy with the hop of the reply, then MOVED, then ack. No attempt is open
--   STALE      (with `later` only) ack the delivery without running the handler. No attempt is open
--
-- START isolated reserves the attempt: BEGUN (begun.lua) makes it isolated. Only START isolated or beside-abandoned counts an open
-- isolated attempt of another token as a crash: its handler had begun, and its process ran no other, so no other message can have
-- killed it. An open attempt that is shared only makes the message a suspect. So does a reservation, which ends here: a late BEGUN
-- of it finds nothing open.

local asked, floor = ARGV[arg + 7], tonumber(ARGV[arg + 8])
local isolated = asked == 'isolated' or asked == 'beside-abandoned'
local oldest = aged or width > 8 and tonumber(ARGV[arg + 9]) or 0
local holds = width > 10 and ARGV[arg + 11] == 'hold'

if top > 0 and not carried then body, changed = 'x', true end -- what this consumer has is not known

if stale then
  verdict = 'STALE'
  if open == token then open, mode, changed = '.', '.', true end
elseif state == 'exhausted' and (now < binds or top > 0 and body == mark) and not earlier then
  verdict = 'EXHAUSTED'
  binds, live = now + BINDS, ttl -- its dead-lettering may be held again
elseif open == token or known then -- our reply was lost; or this START is late, and opens nothing
  verdict = 'RUN'
else
  if state == 'exhausted' or state == 'done' and earlier then -- this is a new use of the id
    failures, crashes, due, wait, suspect, state, binds = 0, 0, 0, 0, '0', '.', 0
    first_at, last_at, cause, reason, open, mode = 0, 0, '.', '', '.', '.'
    limit, own, notes, history, firsts = base, 0, '', '', 0
    if top > 0 then body, double = 'x', false end
    tokens = string.gsub(tokens, '=[fc]', '=e') -- they stay, so that their late steps are not counted here
  elseif state == 'done' then -- the ack was lost: the same limit and no open attempt. binds keeps that it was handled
    state, suspect, open, mode = '.', '0', '.', '.'
  end

  if carried and until_at > 0 and due - now <= above then until_at, mover, changed = 0, '.', true end -- too late for a move

  if mode == 'reserved' and asked ~= 'untracked' then -- its handler did not begin, and must not from now on
    tokens = tokens .. ';' .. open .. '=e'
    suspect, open, mode = '1', '.', '.'
  end

  local runs = carried and carried > 0 and open ~= '.' and math.min(since, now) + lease - now or 0
  if runs <= 0 and isolated and mode == 'isolated' then -- its process died
    crashes = crashes + 1
    tokens = tokens .. ';' .. open .. '=c'
    if first_at == 0 then first_at = now end
    last_at, cause, reason = now, 'crashed', 'the process died while this message ran isolated'
    saw = width > 9 and string.match(ARGV[arg + 10], '^crash (.+)$')
    if saw then reason = saw end
    noted, lasted, noted_by = 'c', open, string.sub(kept, holder_at, notes_at - 1)
    open, mode, binds = '.', '.', 0
  end

  if runs > 0 then -- perhaps at another copy
    verdict, rest = 'WAIT', math.min(runs, POLL)
  elseif holds and failures + crashes > 0 and state ~= 'skip' and call('HGET', pause, 'message') == member then
    verdict, held = 'HELD', call('HGET', pause, 'cause') or cause
  elseif failures + crashes >= limit and binds == 0 and holds and state ~= 'skip' then
    verdict, held = 'HELD', cause
  elseif failures + crashes >= limit and binds == 0 or state == 'skip' then
    verdict = 'EXHAUSTED'
    exhausts = true
  elseif oldest > 0 and last_at - first_at > oldest and failures + crashes > 0 and own == 0 and binds == 0 then
    if holds then
      verdict, held = 'HELD', 'too-old'
    else
      verdict, cause, exhausts = 'EXHAUSTED', 'too-old', true
    end
  elseif due > now then
    verdict = 'WAIT'
    if carried and due - now > above and top < HOPS then
      if until_at > now and mover ~= token then
        rest = math.min(until_at - now, LEASE)
      else
        verdict = 'MOVE'
        if until_at == 0 then top = top + 1 end
        if body == '.' then body = mark end
        until_at, mover = now + LEASE, token
      end
    end
  elseif asked == 'shared' and (suspect == '1' or open ~= '.') then
    verdict = 'SUSPECT'
    suspect = '1'
  else
    verdict = 'RUN'
    starts, fence = starts + 1, math.max(fence + 1, floor + 1, micros)
    if asked ~= 'untracked' or carried and carried > 0 then -- of copies one runs at a time
      if open ~= '.' and asked ~= 'untracked' then suspect = '1' end -- it is overwritten, but not forgotten
      open, mode, since = token, asked == 'isolated' and 'reserved' or 'shared', now
    end
  end
  if kept or verdict == 'RUN' then live, indexed = ttl, true end
end
if changed and not live then live, indexed = ttl, state ~= 'done' end
if kept and open ~= '.' and open ~= token then holder = string.sub(kept, holder_at, notes_at - 1) end -- stays that of the open attempt
