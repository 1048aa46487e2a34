package inbox

import (
	"fmt"
	"regexp"
)

// MySQLSchema makes the table, and changes nothing if it is there.
const MySQLSchema = `CREATE TABLE IF NOT EXISTS strikes_inbox (
	queue varbinary(255) NOT NULL,
	id varbinary(255) NOT NULL,
	generation varbinary(16) NOT NULL,
	done timestamp(6) NOT NULL DEFAULT current_timestamp(6),
	fence bigint NOT NULL,
	PRIMARY KEY (queue, id, generation),
	KEY strikes_inbox_done (queue, done)
) ENGINE = InnoDB`

// MySQL 8 and MariaDB 10.6, or later.
var MySQL = &Database{
	name:      "MySQL",
	longestID: 255, // a longer one is cut off without an error where sql_mode is not strict
	// A row that is there must change, so that it counts as 2. An UPDATE that changes nothing counts as 1, like a new row,
	// for a client with clientFoundRows, and the work would be done twice. INSERT IGNORE makes warnings of errors.
	insert: `INSERT INTO strikes_inbox (queue, id, generation, fence) VALUES (?, ?, ?, ?)
ON DUPLICATE KEY UPDATE fence = fence + 1`,
	forget: `DELETE FROM strikes_inbox WHERE queue = ? AND done < current_timestamp(6) - INTERVAL ? SECOND LIMIT 1000`,
	code:   numberOf,
	hints: map[string]string{
		"1146": "create the table with the Schema of MySQL",
		"1290": "the database is read-only: connect to the primary",
		"1792": "the transaction is read-only",
		"1836": "the database is read-only: connect to the primary",
	},
	passing: "1205 1213 " + // lock wait timeout, deadlock
		"1020 " + // MariaDB: the row has changed since the snapshot
		"1040 " + // too many connections
		"1053 4031 " + // shutdown; MySQL: idle for too long
		"1317 1927 3169 " + // KILL
		"1047 " + // Galera: the node is not ready
		"3100 3101 " + // group replication refused the COMMIT, for example because the server has left the group
		"1036 1290 1792 1836 " + // read-only
		"3 1021 1026 1037 1041 1114 1180", // out of disk or memory, a COMMIT that failed
}

// serverError is how the text of go-sql-driver's errors begins.
var serverError = regexp.MustCompile(`^Error (\d{1,5})(?: \(\w{5}\))?: `)

// numberOf returns the number of the error of go-sql-driver in err's tree. Its type is found by name, because it has no
// method that tells the number. The text of another error may quote one.
func numberOf(err error) string {
	if fmt.Sprintf("%T", err) == "*mysql.MySQLError" {
		if m := serverError.FindStringSubmatch(err.Error()); m != nil {
			return m[1]
		}
	}
	switch e := err.(type) { //nolint:errorlint // it walks the tree
	case interface{ Unwrap() error }:
		return numberOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if number := numberOf(one); number != "" {
				return number
			}
		}
	}
	return ""
}
