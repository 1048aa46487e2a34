package consumer

import "time"

// fell sees the end of a process or a session.
func (c *simChecker) fell(e simEvent) {
	switch e.kind {
	case "told", "cancel":
		c.leave(e.session, e.at+simLeftBehind)
	case "stop":
		for id, s := range c.sessions {
			if s.proc == e.proc {
				c.leave(id, e.at+simDrainTimeout+simLeftBehind)
			}
		}
	case "cut", "close":
		c.sessions[e.session].gone = true
		if e.kind == "close" {
			c.leave(e.session, e.at)
		}
		c.lose(func(a *checkedAttempt) bool { return a.session == e.session && !a.died }, func(a *checkedAttempt) { a.lost = true })
	case "kill":
		c.dead[e.proc] = true
		if e.token != "" {
			c.killers[e.proc] = c.attempt(e)
			c.spare(c.killers[e.proc])
		}
		c.lose(func(a *checkedAttempt) bool { return a.proc == e.proc && !a.died }, func(a *checkedAttempt) { a.died = true })
	}
}

func (c *simChecker) leave(session int, at time.Duration) {
	s := c.sessions[session]
	s.leftFrom = min(s.leftFrom, at)
}

// spare notes which attempts must not be counted as crashes although they may be open: another attempt kills their process.
// What remains is a first delivery that kills while the gate is closed: the store owed an answer for as long as a step is
// repeated, or the session of the attempt had ended, which cuts that short.
func (c *simChecker) spare(killer *checkedAttempt) {
	for _, a := range c.attempts {
		if a.id != killer.id && a.proc == killer.proc && !a.died && !a.failing(c.at) && a.state != "crash" {
			inTime := c.at < a.unheard+simLocked && !c.sessions[a.session].gone
			a.innocent = !killer.first || a.unheard == 0 || inTime
		}
	}
}

// lose marks attempts that lost their process or session, and decides whether that may count as a crash.
func (c *simChecker) lose(which func(*checkedAttempt) bool, mark func(*checkedAttempt)) {
	var lost []*checkedAttempt
	for _, a := range c.attempts {
		if which(a) {
			lost = append(lost, a)
		}
	}
	for _, a := range lost {
		if !a.innocent && (a.failing(c.at) || a.unheard > 0 || c.onlyHandler(a)) {
			a.countable = true
		}
	}
	for _, a := range lost {
		mark(a)
	}
}

// onlyHandler reports whether no other handler runs in a's process.
func (c *simChecker) onlyHandler(a *checkedAttempt) bool {
	for _, other := range c.attempts {
		if other != a && other.proc == a.proc && other.state == "running" && !other.died {
			return false
		}
	}
	return true
}

func (c *simChecker) leftBehind(a *checkedAttempt) bool {
	return c.at >= a.until+simLeftBehind || c.at >= c.sessions[a.session].leftFrom
}

func (c *simChecker) settled(e simEvent) {
	switch e.what {
	case "ack", "requeue", "dead-letter":
	default:
		c.report("I12", "settled with %s", e.what)
	}
	if !e.took {
		if e.text == "unknown delivery tag" {
			c.report("I12", "delivery tag %d was settled twice", e.tag)
		}
		return
	}
	handled, exhausted := false, false
	for _, a := range c.attempts {
		if a.session == e.session && a.id == e.id {
			exhausted = exhausted || a.exhausted
			handled = handled || a.tag == e.tag && a.state == "ok"
			if e.what == "ack" && a.tag == e.tag && a.state == "ok" && !a.overdue && a.first && a.steps > 0 && c.isolation != "strict" {
				c.report("I9", "%s succeeded at its first delivery, and the store was asked %d times", e.copy, a.steps)
			}
		}
	}
	switch e.what {
	case "ack":
		if !handled {
			c.report("I1", "%s was acked and not handled", e.copy)
		}
	case "dead-letter":
		c.deadLettered(e, exhausted)
	default:
		return
	}
	c.copies[e.copy].end, c.copies[e.copy].done = e.what, true
}

func (c *simChecker) deadLettered(e simEvent, exhausted bool) {
	m := c.messages[e.id]
	if m.id == "" || m.rejected || m.mistaken {
		return
	}
	causes := 0
	for _, a := range c.attempts {
		if a.id == m.id && (a.failing(c.at) || a.counted == 'c' || a.crashed && m.copies > 1 || a.exclusive && a.countable) {
			causes++
		}
	}
	if causes < c.limit && !m.skipped {
		c.report("I2", "%s was dead-lettered after %d failures and crashes of %d", e.copy, causes, c.limit)
	}
	if !exhausted {
		c.report("I2", "%s was dead-lettered without leave of the store", e.copy)
	}
}

// failing reports whether the handler failed, or passed its deadline.
func (a *checkedAttempt) failing(at time.Duration) bool {
	switch a.state {
	case "error", "panic", "goexit", "reject", "late":
		return true
	case "running":
		return at >= a.until
	}
	return a.overdue
}
