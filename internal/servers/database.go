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
	"time"
)

// DatabaseOptions are the options of a private database. The zero value is a plain one.
type DatabaseOptions struct {
	// Args are added to the server's command line, for instance "-c", "max_connections=200".
	Args []string
}

// Database is a private PostgreSQL or MariaDB that lets everybody in. Its data survives its processes, but not a crash
// of the machine. If this process runs as root, the server runs as the user nobody, because PostgreSQL refuses root.
type Database struct {
	server
	Addr string // 127.0.0.1:PORT
}

// StartPostgreSQL starts a private PostgreSQL with the superuser postgres and the database postgres. It waits until
// the server answers, and otherwise behaves as StartRedis does.
func StartPostgreSQL(ctx context.Context, opts DatabaseOptions) (*Database, error) {
	return startPostgreSQL(ctx, opts, "initdb", "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale",
		"--no-sync")
}

// StartStandby starts a private PostgreSQL that follows another: its standby, by streaming replication.
func StartStandby(ctx context.Context, primary *Database) (*Database, error) {
	return startPostgreSQL(ctx, DatabaseOptions{}, "pg_basebackup", "-h", "127.0.0.1", "-p", primary.port(0),
		"-U", "postgres", "-R", "--checkpoint=fast", "--no-sync")
}

// startPostgreSQL starts a PostgreSQL, whose data directory the program maker[0] makes: initdb or pg_basebackup.
func startPostgreSQL(ctx context.Context, opts DatabaseOptions, maker ...string) (*Database, error) {
	bin, err := findPostgreSQL()
	if err != nil {
		return nil, err
	}
	program := func(name string) string { return filepath.Join(filepath.Dir(bin), name) }
	return startDatabase(ctx, "PostgreSQL", func(d *Database) error {
		data := d.dir.join("data")
		d.probe = func(ctx context.Context) error {
			return exec.CommandContext(ctx, program("pg_isready"), "-h", "127.0.0.1", "-p", d.port(0)).Run()
		}
		// Memory that is mapped from files goes with the directory, and other shared memory would stay after a SIGKILL.
		d.args = append([]string{bin, "-D", data, "-p", d.port(0), "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "dynamic_shared_memory_type=mmap",
			"-c", "max_connections=300"}, opts.Args...)
		return d.run(ctx, maker[0], append([]string{program(maker[0]), "-D", data}, maker[1:]...)...)
	})
}

// StartMariaDB starts a private MariaDB with the database strikes and without accounts: any user may do anything. It
// waits until the server answers, and otherwise behaves as StartRedis does. Kill loses everything until the first Stop.
// After it, Kill loses the last second, unless Args set innodb-flush-log-at-trx-commit to 2.
//
// If STRIKES_MYSQLD names a mysqld of MySQL 8.0.30 or later, that is started instead. There root needs no password.
func StartMariaDB(ctx context.Context, opts DatabaseOptions) (*Database, error) {
	bin, name := os.Getenv("STRIKES_MYSQLD"), "MySQL"
	own := []string{"--mysqlx=0", "--auto-generate-certs=0", "--skip-log-bin", "--secure-file-priv=",
		"--innodb-redo-log-capacity=16M"}
	if bin == "" {
		var err error
		if bin, err = findExecutable("mariadbd"); err != nil {
			return nil, err
		}
		name, own = "MariaDB", []string{"--skip-grant-tables", "--innodb-log-file-size=16M"}
	}
	return startDatabase(ctx, name, func(d *Database) error {
		d.probe = d.greets
		d.args = slices.Concat([]string{bin, "--no-defaults", "--datadir=" + d.dir.join("data"),
			"--bind-address=127.0.0.1", "--port=" + d.port(0), "--socket=" + d.dir.join("socket"),
			"--pid-file=" + d.dir.join("pid"), "--tmpdir=" + d.dir.path, "--max-connections=300",
			"--innodb-flush-log-at-trx-commit=0"}, own, opts.Args)
		if name == "MySQL" {
			return d.initialize(ctx)
		}
		return errors.Join(d.dir.mkdir("data"), d.dir.mkdir("data/strikes"))
	})
}

// initialize makes the data directory of a MySQL, which does not start without its accounts.
func (d *Database) initialize(ctx context.Context) error {
	const accounts = "CREATE DATABASE strikes;\nUPDATE mysql.user SET host = '%' WHERE user = 'root';\n"
	init := d.dir.join("init.sql")
	if err := errors.Join(os.WriteFile(init, []byte(accounts), 0o600), d.dir.own(init)); err != nil {
		return err
	}
	return d.run(ctx, "mysqld", slices.Concat(d.args, []string{"--initialize-insecure", "--init-file=" + init})...)
}

// startDatabase starts a database that prepare has made ready.
func startDatabase(ctx context.Context, name string, prepare func(*Database) error) (*Database, error) {
	s, err := newServer(name, 1)
	if err != nil {
		return nil, err
	}
	d := &Database{server: s, Addr: s.addr(0)}
	if os.Getuid() == 0 {
		d.dir.user = nobody
	}
	if err = d.dir.own(d.dir.path); err == nil {
		err = prepare(d)
	}
	if err == nil {
		err = d.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// run runs a program to its end.
func (d *Database) run(ctx context.Context, name string, args ...string) error {
	c, err := startChild(d.dir, name, d.env, args...)
	if err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		return errors.Join(ctx.Err(), c.kill())
	}
	if c.err != nil {
		return fmt.Errorf("%s: %w; its log ends:\n%s", name, c.err, c.tail())
	}
	return nil
}

// Kill ends all processes of the server with SIGKILL, as a crash of its machine would.
func (d *Database) Kill() error {
	return errors.Join(d.signalAll(syscall.SIGSTOP), d.signalAll(syscall.SIGKILL), d.server.Kill())
}

// Pause freezes the server: connections stay open and nothing answers, until Resume, Kill or Close.
func (d *Database) Pause() error { return d.signalAll(syscall.SIGSTOP) }

// Resume ends a Pause.
func (d *Database) Resume() error { return d.signalAll(syscall.SIGCONT) }

// signalAll signals the server and then its children, each of which PostgreSQL puts into a group of its own.
func (d *Database) signalAll(sig syscall.Signal) error {
	children := exec.CommandContext(context.Background(), "pgrep", "-P", strconv.Itoa(d.Group()))
	if sig != syscall.SIGKILL {
		if err := d.signal(sig); err != nil {
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
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", d.Addr)
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(probeTimeout)) // an error comes again when the packet is read
	var packet [5]byte
	_, err = io.ReadFull(conn, packet[:])
	if err = errors.Join(err, conn.Close()); err == nil && packet[4] != 10 {
		err = fmt.Errorf("it greets with %v", packet)
	}
	return err
}

// Close ends the database and removes its directory. It must be called once.
func (d *Database) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	_ = d.end(ctx, syscall.SIGQUIT) // PostgreSQL's own processes are in groups of their own, and end with it
	return d.server.Close()
}

// mkdir makes a directory within w, for its user.
func (w *workdir) mkdir(name string) error {
	if err := os.Mkdir(w.join(name), 0o700); err != nil {
		return err
	}
	return w.own(w.join(name))
}

// nobody is the user and group without rights, on Linux.
const nobody = 65534

// own gives a path to the user of w's children.
func (w *workdir) own(path string) error {
	if w.user == 0 {
		return nil
	}
	if err := os.Chown(path, w.user, w.user); err != nil {
		return fmt.Errorf("giving the directory to the user nobody: %w", err)
	}
	return nil
}
