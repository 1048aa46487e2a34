package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// DatabaseOptions says what private database to start. The zero value is a plain one.
type DatabaseOptions struct {
	// Args are added to the server's command line, for instance "-c", "max_connections=200".
	Args []string
}

// Database is a private PostgreSQL or MariaDB that lets everybody in. Its data survives its processes, but not a crash
// of the machine. If this process runs as root, the server runs as the user nobody, because PostgreSQL
// refuses root.
type Database struct {
	process
	Addr string // 127.0.0.1:PORT

	name  string
	dir   *workdir
	args  []string // of the server
	probe func(context.Context) error
}

// StartPostgreSQL starts a private PostgreSQL with the superuser postgres and the database postgres. It waits until
// the server answers, and otherwise behaves as StartRedis does.
func StartPostgreSQL(ctx context.Context, opts DatabaseOptions) (*Database, error) {
	return startPostgreSQL(ctx, opts, "initdb", "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale",
		"--no-sync")
}

// StartStandby starts a private PostgreSQL that follows another: its standby, by streaming replication.
func StartStandby(ctx context.Context, primary *Database) (*Database, error) {
	host, port, _ := net.SplitHostPort(primary.Addr)
	return startPostgreSQL(ctx, DatabaseOptions{}, "pg_basebackup", "-h", host, "-p", port, "-U", "postgres", "-R",
		"--checkpoint=fast", "--no-sync")
}

// startPostgreSQL starts a PostgreSQL, whose data directory the program maker[0] makes: initdb or pg_basebackup.
func startPostgreSQL(ctx context.Context, opts DatabaseOptions, maker ...string) (*Database, error) {
	return startDatabase(ctx, "PostgreSQL", findPostgreSQL, func(ctx context.Context, d *Database, bin string) error {
		data, program := d.dir.join("data"), func(name string) string { return filepath.Join(filepath.Dir(bin), name) }
		if err := d.run(ctx, maker[0], append([]string{program(maker[0]), "-D", data}, maker[1:]...)...); err != nil {
			return err
		}
		host, port, _ := net.SplitHostPort(d.Addr)
		// Memory that is mapped from files goes with the directory, and other shared memory would stay after a SIGKILL.
		return d.serve(ctx, func(ctx context.Context) error {
			return exec.CommandContext(ctx, program("pg_isready"), "-h", host, "-p", port).Run()
		}, append([]string{bin, "-D", data, "-p", port, "-c", "listen_addresses=" + host, "-c", "unix_socket_directories=",
			"-c", "fsync=off", "-c", "dynamic_shared_memory_type=mmap", "-c", "max_connections=300"}, opts.Args...)...)
	})
}

// StartMariaDB starts a private MariaDB with the database strikes and without accounts: any user may do anything. It
// waits until the server answers, and otherwise behaves as StartRedis does. Kill loses everything until the first Stop.
// After it, Kill loses the last second, unless Args set innodb-flush-log-at-trx-commit to 2.
func StartMariaDB(ctx context.Context, opts DatabaseOptions) (*Database, error) {
	find := func() (string, error) { return findExecutable("mariadbd") }
	return startDatabase(ctx, "MariaDB", find, func(ctx context.Context, d *Database, bin string) error {
		if err := errors.Join(d.dir.mkdir("data"), d.dir.mkdir("data/strikes")); err != nil {
			return err
		}
		host, port, _ := net.SplitHostPort(d.Addr)
		return d.serve(ctx, d.greets, append([]string{bin, "--no-defaults", "--skip-grant-tables",
			"--datadir=" + d.dir.join("data"), "--bind-address=" + host, "--port=" + port, "--socket=" + d.dir.join("socket"),
			"--pid-file=" + d.dir.join("pid"), "--tmpdir=" + d.dir.path,
			"--max-connections=300", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0"}, opts.Args...)...)
	})
}

func startDatabase(ctx context.Context, name string, find func() (string, error),
	start func(ctx context.Context, d *Database, bin string) error) (*Database, error) {
	bin, err := find()
	if err != nil {
		return nil, fmt.Errorf("servers: private %s: %w", name, err)
	}
	dir, err := newWorkdir("database", 1)
	if err != nil {
		return nil, fmt.Errorf("servers: private %s: %w", name, err)
	}
	d := &Database{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(dir.ports[0])), name: name, dir: dir}
	if err = dir.giveToNobody(); err == nil {
		err = start(ctx, d, bin)
	}
	if err != nil {
		return nil, fmt.Errorf("servers: starting %s from %s: %w", name, bin, errors.Join(err, d.Close()))
	}
	return d, nil
}

func (d *Database) env() []string {
	return []string{"PATH=" + searchPath(), "HOME=" + d.dir.path, "LC_ALL=C", "TZ=UTC"}
}

// run runs a program to its end.
func (d *Database) run(ctx context.Context, name string, args ...string) error {
	c, err := startChild(d.dir, name, d.env(), args...)
	if err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return errors.Join(ctx.Err(), c.kill())
	}
	if !c.succeeded {
		return fmt.Errorf("%s: %w; its log ends:\n%s", name, c.err, c.tail())
	}
	return nil
}

func (d *Database) serve(ctx context.Context, probe func(context.Context) error, args ...string) (err error) {
	d.probe, d.args = probe, args
	return d.Start(ctx)
}

// Start starts the database again after Stop or Kill, on the same port and with its data, and waits until it answers.
func (d *Database) Start(ctx context.Context) (err error) {
	if d.server, err = startChild(d.dir, "server", d.env(), d.args...); err != nil {
		return err
	}
	return waitReady(ctx, d.server, d.probe)
}

// Kill ends all processes of the server with SIGKILL, as a crash of its machine would.
func (d *Database) Kill() error {
	return errors.Join(d.signalAll(sigStop), d.signalAll(sigKill), d.process.Kill())
}

// Pause freezes the server: connections stay open and nothing answers, until Resume, Kill or Close.
func (d *Database) Pause() error { return d.signalAll(sigStop) }

// Resume ends a Pause.
func (d *Database) Resume() error { return d.signalAll(sigCont) }

// signalAll signals the server and then its children, each of which PostgreSQL puts into a group of its own.
func (d *Database) signalAll(sig syscall.Signal) error {
	children := exec.CommandContext(context.Background(), "pgrep", "-P", strconv.Itoa(d.Group()))
	if sig != sigKill {
		if err := d.process.signal("signalling", sig); err != nil {
			return err
		}
	}
	out, _ := children.Output() // it fails where there are none
	for _, pid := range strings.Fields(string(out)) {
		if n, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(n, sig) // it may have ended
		}
	}
	return nil
}

// greets reads the packet with which MariaDB begins each connection: its length, its number, and the version of the
// protocol.
func (d *Database) greets(ctx context.Context) error {
	conn, err := dialWithin(ctx)("tcp", d.Addr)
	if err != nil {
		return err
	}
	var packet [5]byte
	_, err = io.ReadFull(conn, packet[:])
	if closed := conn.Close(); err == nil {
		err = closed
	}
	if err == nil && packet[4] != 10 {
		err = fmt.Errorf("it greets with %v", packet)
	}
	return err
}

// Close ends the database and removes its directory. It must be called once.
func (d *Database) Close() error {
	// PostgreSQL's own processes are in groups of their own, and end with it.
	var err error
	if d.server.running() {
		if err = d.server.signal(syscall.SIGQUIT); err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
			defer cancel()
			select {
			case <-d.server.done:
			case <-ctx.Done():
			}
		}
	}
	if err := errors.Join(err, d.server.kill(), d.dir.close()); err != nil {
		return fmt.Errorf("servers: closing %s: %w", d.name, err)
	}
	return nil
}

// findPostgreSQL returns the path of an installed postgres: the newest where Debian and Red Hat keep each version, or
// that on PATH.
func findPostgreSQL() (string, error) {
	var found []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/postgres", "/usr/pgsql-*/bin/postgres"} {
		some, _ := filepath.Glob(pattern) // fails only on a malformed pattern
		found = append(found, some...)
	}
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int { return versionIn(a) - versionIn(b) }), nil
	}
	return findExecutable("postgres")
}

// versionIn is the first number in a path.
func versionIn(path string) (n int) {
	for _, c := range path {
		switch {
		case c >= '0' && c <= '9':
			n = 10*n + int(c-'0')
		case n > 0:
			return n
		}
	}
	return n
}

// mkdir makes a directory within w, for its user.
func (w *workdir) mkdir(name string) error {
	if err := os.Mkdir(w.join(name), 0o700); err != nil {
		return err
	}
	return w.own(w.join(name))
}

// giveToNobody has all children of w run as the user nobody if this process is root's.
func (w *workdir) giveToNobody() error {
	if os.Getuid() != 0 {
		return nil
	}
	w.user = nobody
	return w.own(w.path)
}

func (w *workdir) own(path string) error {
	if w.user == 0 {
		return nil
	}
	if err := os.Chown(path, w.user, w.user); err != nil {
		return fmt.Errorf("giving the directory to the user nobody: %w", err)
	}
	return nil
}
