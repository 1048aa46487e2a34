package consumer

import "maps"

// stepped sees one step on the store, and holds what it changed against what it may change.
func (c *simChecker) stepped(e simEvent) {
	a := c.attempt(e)
	a.steps++
	was, is := e.before, e.after
	if is.exists {
		c.counted(e)
		c.touched(a, e)
	} else if was.exists {
		c.report("I7", "%s deleted the record", e.what)
	}
	c.skipped(e)
	switch e.what {
	case "START":
		a.exclusive = a.exclusive || e.exclusive && e.verdict == "RUN"
		a.beside = a.beside || e.beside && e.verdict == "RUN"
		if a.doubled(e) {
			a.innocent = false
		}
		a.countable = a.countable || (a.lost || a.died) && !a.innocent
	case "FAIL":
		a.fails++
		if !a.failing(c.at) {
			c.report("I2", "a failure was counted for %s, which had not failed: %q", e.id, a.state)
		}
		if m := c.messages[e.id]; is.double && !was.double && m.copies < 2 && m.forgets == 0 && m.losses == 0 {
			c.report("double", "%s is one message, and was taken for two", e.id)
		}
		if a.fails > 1 && !is.exists {
			c.report("I4", "a failure of %s was counted again", e.id)
		}
	case "END":
		a.returned = a.returned || !e.succeeded
	}
	if e.what != "START" && is.tokens[e.token] == 'c' {
		c.report("I5", "%s did not reverse the crash of an attempt whose process lives", e.what)
	}
	for token, kind := range is.tokens {
		if other := c.attempts[token]; other != nil {
			c.recorded(a, other, e, kind)
		}
	}
}

// doubled reports whether the network delivered a START twice, the second time after the first was answered WAIT and the
// process died. The store cannot tell this from the START that follows a WAIT: docs/guarantees.md, "A late START". A START
// whose answer the process still waited for is not one.
func (a *checkedAttempt) doubled(e simEvent) bool {
	return e.late && e.verdict == "RUN" && a.died && a.waited && a.unheard == 0
}

// recorded sees what the record says of an attempt.
func (c *simChecker) recorded(by, a *checkedAttempt, e simEvent, kind byte) {
	if kind == 'c' && e.before.tokens[a.token] != 'c' {
		a.crashed = true
		if !a.died && e.after.state == "exhausted" && (e.late || c.sessions[e.session].gone) {
			c.messages[e.id].mistaken = true
		}
		switch {
		case e.what != "START" || !e.exclusive && !e.beside || by == a:
			c.report("I5", "%s counted a crash", e.what)
		case !a.exclusive:
			c.report("I5", "a crash of %s was counted for an attempt that was not isolated", e.id)
		case c.isolation == "off":
			c.report("I5", "a crash of %s was counted though crashes are not", e.id)
		case a.innocent && c.messages[e.id].copies == 1 && c.messages[e.id].losses == 0:
			c.report("I5", "a crash of %s was counted although another message killed its process", e.id)
		case !c.excused(a, e):
			c.report("I5", "a crash of %s was counted for an attempt that had not crashed: %q", e.id, a.state)
		}
	}
	if kind == 'f' || kind == 'c' {
		a.counted = kind
	} else if kind == 'e' && a.counted == 'c' && by == a {
		a.counted = 0 // reversed
	}
}

// counted holds the counts of a record against its tokens.
func (c *simChecker) counted(e simEvent) {
	is := e.after
	failures, crashes := 0, 0
	for _, kind := range is.tokens {
		switch kind {
		case 'f':
			failures++
		case 'c':
			crashes++
		}
	}
	if is.failures != failures || is.crashes != crashes {
		c.report("I4", "%s left %d failures and %d crashes in the record, of %d and %d attempts", e.what, is.failures, is.crashes, failures, crashes)
	}
	if is.ttl <= 0 {
		c.report("I10", "%s left a record without a TTL", e.what)
	}
	if is.state == "exhausted" && e.before.state != "exhausted" && e.before.state != "skip" && is.failures+is.crashes < c.limit && e.limit > 0 {
		c.report("I2", "%s wrote a tombstone at %d failures and %d crashes of %d", e.what, is.failures, is.crashes, c.limit)
	}
	if is.fence < e.before.fence {
		c.report("fence", "%s set the fence from %d back to %d", e.what, e.before.fence, is.fence)
	}
}

// touched holds what an attempt changed in the record against what is its own.
func (c *simChecker) touched(by *checkedAttempt, e simEvent) {
	was, is := e.before, e.after
	anew := was.state != "" && was.state != "skip" && (e.first || e.what == "START") // history, of which a new use of the id takes nothing over
	if anew {
		if m := c.messages[e.id]; e.first && (e.late || c.sessions[e.session].gone || m.forgets > 0) && is.state != was.state {
			m.renewals++
		}
		return
	}
	counted := ""
	if e.what == "START" && (e.exclusive || e.beside) && was.exclusive && was.openToken != by.token {
		counted = was.openToken
	}
	others := func(tokens map[string]byte) map[string]byte {
		out := maps.Clone(tokens)
		maps.DeleteFunc(out, func(token string, kind byte) bool { return token == by.token || token == counted || kind == 'e' })
		return out
	}
	if !maps.Equal(others(was.tokens), others(is.tokens)) {
		c.report("I7", "%s of one attempt changed the count of another", e.what)
	}
	if was.openToken == is.openToken || was.openToken == by.token {
		return
	}
	switch {
	case e.what != "START":
		c.report("I7", "%s changed the open attempt of another", e.what)
	case !e.exclusive && !e.beside && was.openToken != "":
		c.report("I7", "START replaced an open attempt that may still run")
	}
}

// excused reports whether a crash may be counted for a. A START that arrives after the session of its sender has ended can
// count a crash of an attempt that runs: the attempt's own FAIL or END reverses it. Two copies of a message can do the same
// to each other, and a store that lost its last writes may have forgotten how a ended.
func (c *simChecker) excused(a *checkedAttempt, e simEvent) bool {
	m := c.messages[e.id]
	return a.countable || a.failing(c.at) || e.late || c.sessions[e.session].gone || m.copies > 1 || m.losses > 0
}
