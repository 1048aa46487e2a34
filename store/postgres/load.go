package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// byName reads the documents that $2 names. A condition with an array of names would do too. But while the table has no
// statistics, PostgreSQL then reads the whole queue for a hundred names.
const byName = `unnest($2::bytea[]) AS t (name), LATERAL (SELECT * FROM strikes_doc WHERE queue = $1 AND name = t.name
	OFFSET 0) d`

const loadSQL = `SELECT t.now, d.name, d.data, d.version, d.expires, d.sums
	FROM (SELECT ` + micros + ` AS now) t LEFT JOIN (SELECT d.* FROM ` + byName + `) d ON true`

// Load is that of counter.Store.
func (s *Store) Load(ctx context.Context, of counter.Queue, names ...string) (now time.Time, _ []counter.Doc, _ error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	found := map[string]counter.Doc{}
	var at int64
	err := s.on(ctx, []string{loadSQL}, func(conn *pgxpool.Conn, _ bool) error {
		rows, err := conn.Query(ctx, loadSQL, s.queue(of), namesOf(names))
		if err != nil {
			return err
		}
		var name, data []byte
		var version, expires *int64
		var sums map[string]int64
		_, err = pgx.ForEachRow(rows, []any{&at, &name, &data, &version, &expires, &sums}, func() error {
			if version == nil || *expires > 0 && *expires <= at/1000 {
				return nil
			}
			d := counter.Doc{Name: string(name), Data: string(data), Version: strconv.FormatInt(*version, 10),
				Expires: sqlstore.Time(*expires)}
			for field, by := range sums {
				d.Data = counter.AddTo(d.Data, counter.Sum{Field: field, By: by})
			}
			found[d.Name], sums = d, nil
			return nil
		})
		return err
	})
	if err != nil {
		return now, nil, s.failed(err)
	}
	docs := make([]counter.Doc, len(names))
	for i, name := range names {
		if docs[i] = found[name]; docs[i].Version == "" {
			docs[i] = counter.Doc{Name: name}
		}
	}
	return time.UnixMicro(at).UTC(), docs, nil
}

// Read is that of counter.Store.
func (s *Store) Read(ctx context.Context, of counter.Queue, names ...string) ([]string, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	rows, err := s.pool.Query(ctx, `SELECT d.name, d.data FROM (SELECT `+micros+` / 1000 AS now OFFSET 0) c, `+byName+`
		WHERE d.expires = 0 OR d.expires > c.now`, s.queue(of), namesOf(names))
	if err != nil {
		return nil, s.failed(err)
	}
	found := map[string]string{}
	var name, data []byte
	if _, err := pgx.ForEachRow(rows, []any{&name, &data}, func() error {
		found[string(name)] = string(data)
		return nil
	}); err != nil {
		return nil, s.failed(err)
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = found[name]
	}
	return out, nil
}

// Page is that of counter.Store.
func (s *Store) Page(ctx context.Context, of counter.Queue, set string, after counter.Entry, n int) ([]counter.Entry,
	error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	query := `SELECT name, score FROM strikes_member WHERE queue = $1 AND "set" = $2`
	args := []any{s.queue(of), []byte(set)}
	if after != (counter.Entry{}) {
		query += ` AND (score, name) < ($3, $4)`
		args = append(args, after.Score, []byte(after.Name))
	}
	rows, err := s.pool.Query(ctx, query+` ORDER BY score DESC, name DESC LIMIT `+strconv.Itoa(n), args...)
	if err != nil {
		return nil, s.failed(err)
	}
	var out []counter.Entry
	var name []byte
	var score int64
	_, err = pgx.ForEachRow(rows, []any{&name, &score}, func() error {
		out = append(out, counter.Entry{Name: string(name), Score: score})
		return nil
	})
	return out, s.failed(err)
}

// Count is that of counter.Store.
func (s *Store) Count(ctx context.Context, of counter.Queue, set string, from int64) (n int, err error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM strikes_member WHERE queue = $1 AND "set" = $2 AND score >= $3`,
		s.queue(of), []byte(set), from).Scan(&n)
	return n, s.failed(err)
}
