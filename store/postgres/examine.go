package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// oldest is the oldest version of PostgreSQL on which the queries work, as server_version_num says it.
const oldest = 130000

// Examine is that of counter.Store: it asks for the version, the role, synchronous_commit, the clock and the
// permissions. A missing schema is an error.
func (s *Store) Examine(ctx context.Context) (found []counter.Finding, _ error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var version int
	var release, commit, user string
	var replica, may bool
	var at int64
	began := time.Now()
	err := s.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'),
		current_setting('synchronous_commit'), current_user,
		pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on', `+micros+`,
		(SELECT bool_and(has_table_privilege(t, p)) FROM unnest(ARRAY['strikes_doc', 'strikes_member']) t,
		unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p)`).Scan(&version, &release, &commit, &user, &replica, &at, &may)
	if err != nil {
		return nil, s.failed(err)
	}
	ahead := time.UnixMicro(at).Sub(began.Add(time.Since(began) / 2))
	for _, f := range []struct {
		is bool
		counter.Finding
	}{
		{version < oldest, counter.Finding{
			Code: "store-version", Severe: true,
			Seen:   fmt.Sprintf("the store %s is PostgreSQL %s", s.addr, release),
			Impact: "the steps are not tested on a PostgreSQL before 13",
			Fix:    "use PostgreSQL 13 or later",
		}},
		{replica, counter.Finding{
			Code: "store-replica", Severe: true,
			Seen:   fmt.Sprintf("the store %s is a replica or read-only", s.addr),
			Impact: "it refuses writes: no failure is counted, and failed messages are held until their session ends",
			Fix:    "use the primary's address, or all addresses with target_session_attrs=read-write",
		}},
		{!may, counter.Finding{
			Code: "store-acl", Severe: true,
			Seen:   fmt.Sprintf("the user %q of the store %s may not read and write its tables", user, s.addr),
			Impact: "the steps that need it fail, and failed messages are held until their session ends",
			Fix:    "run as the owner of the tables: " + fmt.Sprintf(Grants, user),
		}},
		{commit == "off", counter.Finding{
			Code:   "store-volatile",
			Seen:   fmt.Sprintf("synchronous_commit of the store %s is off", s.addr),
			Impact: "a crash of the server loses the counts of its last moments, and those attempts are made again",
			Fix:    fmt.Sprintf("ALTER ROLE %s SET synchronous_commit = on", user),
		}},
		{ahead.Abs() > time.Minute, counter.Finding{
			Code:   "store-clock",
			Seen:   fmt.Sprintf("the clock of the store %s differs by %v from this machine's", s.addr, ahead.Round(time.Second)),
			Impact: "lists show the store's times, and the age of a message is by its clock",
			Fix:    "let both machines set their clocks by NTP",
		}},
	} {
		if f.is {
			found = append(found, f.Finding)
		}
	}
	return found, nil
}
