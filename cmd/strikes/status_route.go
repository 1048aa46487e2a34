package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/management"
	"github.com/strikesmq/strikes/topology"
)

const (
	// routeEvery is the least time between two checks of the dead-letter route: each takes several requests.
	routeEvery = 10 * time.Second
	// routeTimeout bounds one. The policy of a queue that was just declared may take longer.
	routeTimeout = 5 * time.Second
)

// askRoute finds out why dead letters did not arrive. It asks nothing if all are accounted for.
func (l *looker) askRoute(ctx context.Context, s *standing) {
	d := &s.Dead
	if d.Missing == 0 && d.Waiting == 0 {
		return
	}
	if time.Since(l.routeSeen) >= routeEvery {
		l.routeSeen, l.route = time.Now(), nil
		ctx, cancel := context.WithTimeout(ctx, routeTimeout)
		defer cancel()
		need := l.api
		need.Queue = l.queue
		found, err := inspect.Inspect(ctx, l.conn, need)
		if err != nil && !errors.Is(err, topology.ErrQueueNotFound) {
			s.Notes = append(s.Notes, "the dead-letter route could not be checked: "+err.Error())
		}
		l.route = found
	}
	d.Route = slices.DeleteFunc(slices.Clone(l.route), func(f inspect.Finding) bool { return !explains(f, d.Missing > 0) })
}

// explains reports whether a finding may be why dead letters did not arrive: an error of the route, or, if some are missing, also
// a warning.
func explains(f inspect.Finding, missing bool) bool {
	return strings.Contains(f.Code, "dead-letter") && (f.Severity == inspect.Error || missing)
}

// route are the rows of what is wrong with the dead-letter route.
func (d deadLetters) route() []term.Row {
	var rows []term.Row
	for _, f := range d.Route {
		rows = append(rows, term.Row{Text: "route      " + term.Printable(f.Seen, "") + "; to fix: " + term.Printable(f.Fix, ""), Kind: term.Alarm})
	}
	if d.Waiting > 0 {
		rows = append(rows, term.Row{Text: "           the broker retries what waits about every 3 minutes", Kind: term.Quiet})
	}
	return rows
}

// unmanaged says what cannot be seen without the management API, and why it is not asked.
func unmanaged(err error) string {
	why := "the management API is not at its usual place (--management-url names another)"
	if errors.Is(err, management.ErrDenied) {
		why = "the management API refuses the AMQP user (--management-url takes another)"
	}
	return fmt.Sprintf("no rates, no counts of what others took out of the dead-letter queue or what waits for it: %s: %v", why, err)
}
