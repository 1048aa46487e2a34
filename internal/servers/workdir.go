package servers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// guardScript reads the live process groups, the whole list at every change, and acts when its standard input ends:
// because the directory was closed, or because the process that held the other end is gone, however it died. A
// parent-death signal would be Linux only, is tied to the thread that started the child, and leaves the directory
// behind.
const guardScript = `
while read -r groups; do live=$groups; done
for g in $live; do kill -KILL "-$g" 2>/dev/null; done
for try in 1 2 3 4 5; do rm -rf -- "$1" && exit 0; sleep 1; done
exit 1`

// A workdir is the temporary directory of one private server, the ports that are its own, and the guard that outlives
// this process to kill the server and remove the directory.
type workdir struct {
	path  string
	user  int // of its children; 0: that of this process
	ports []int
	kept  []io.Closer
	guard *exec.Cmd
	stdin io.WriteCloser

	mu   sync.Mutex
	live []int
}

func newWorkdir(ports int) (_ *workdir, err error) {
	w := &workdir{}
	if w.ports, w.kept, err = reservePorts(ports); err != nil {
		return nil, err
	}
	if w.path, err = os.MkdirTemp("", "strikes-server-"); err != nil {
		return nil, errors.Join(err, CloseAll(w.kept))
	}
	w.guard = exec.Command("/bin/sh", "-c", guardScript, "strikes-guard", w.path)
	w.guard.Dir = "/"
	w.guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if w.stdin, err = w.guard.StdinPipe(); err == nil {
		err = w.guard.Start()
	}
	if err != nil {
		err = fmt.Errorf("starting the guard process: %w", err)
		return nil, errors.Join(err, os.RemoveAll(w.path), CloseAll(w.kept))
	}
	return w, nil
}

func (w *workdir) join(elem ...string) string {
	return filepath.Join(append([]string{w.path}, elem...)...)
}

// watch tells the guard that a process group lives, or that it has ended.
func (w *workdir) watch(group int, lives bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if lives {
		w.live = append(w.live, group)
	} else {
		w.live = slices.DeleteFunc(w.live, func(g int) bool { return g == group })
	}
	_, err := fmt.Fprintln(w.stdin, strings.Trim(fmt.Sprint(w.live), "[]"))
	return err
}

// close kills the processes that still run, removes the directory, waits for the guard that does both, and gives the
// ports back.
func (w *workdir) close() error {
	err := errors.Join(w.stdin.Close(), w.guard.Wait(), CloseAll(w.kept))
	if err != nil {
		return fmt.Errorf("removing %s: %w", w.path, err)
	}
	return nil
}
