package inbox

// PostgreSQLSchema makes the table, and changes nothing if it is there. CREATE INDEX IF NOT EXISTS would wait for all
// handlers that run, and let no other begin meanwhile.
const PostgreSQLSchema = `DO $$ BEGIN
	PERFORM pg_advisory_xact_lock(hashtext('strikes_inbox')); -- several processes may start at once
	IF to_regclass(format('%I.strikes_inbox_done', current_schema())) IS NULL THEN
		CREATE TABLE IF NOT EXISTS strikes_inbox (
			queue bytea NOT NULL,
			id bytea NOT NULL,
			generation bytea NOT NULL,
			done timestamptz NOT NULL DEFAULT now(),
			fence bigint NOT NULL,
			PRIMARY KEY (queue, id, generation)
		);
		CREATE INDEX strikes_inbox_done ON strikes_inbox (queue, done);
	END IF;
END $$;
`

// PostgreSQL 13 or later.
var PostgreSQL = &Database{
	name:      "PostgreSQL",
	longestID: 2000, // an entry of an index has 2704 bytes at most, by its documentation
	// The function in FROM is called before the row is inserted. NULL leaves the server's own timeout.
	insert: `INSERT INTO strikes_inbox (queue, id, generation, fence)
SELECT $1::bytea, $2::bytea, $3::bytea, $4::bigint
FROM set_config('idle_in_transaction_session_timeout',
	coalesce($5::text, current_setting('idle_in_transaction_session_timeout')), true)
ON CONFLICT DO NOTHING`,
	ends: true,
	forget: `DELETE FROM strikes_inbox WHERE ctid = ANY(ARRAY(
SELECT ctid FROM strikes_inbox WHERE queue = $1::bytea AND done < now() - make_interval(secs => $2::text::float8)
	LIMIT 1000))`,
	code: stateOf,
	hints: map[string]string{
		"42P01": "create the table with Schema",
		"25006": "the database is read-only: connect to the primary",
	},
	cancelled: "57014", // by lib/pq
	passing: "08* 40* " + // connection; serialization failure, deadlock
		"53000 53100 53200 53300 " + // out of disk, memory, connections; 53400 is counted
		"55P03 57P* " + // lock_timeout; the server or an administrator ends the connection
		"58* 25P03 25006", // system error; idle_in_transaction_session_timeout; read-only
}
