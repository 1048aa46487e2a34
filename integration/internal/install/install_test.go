package install

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakePath makes the scripts the only commands on PATH.
func fakePath(t *testing.T, scripts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return dir
}

func TestPackageManager(t *testing.T) {
	missing := []Tool{RabbitMQ, CCompiler}
	tests := []struct {
		name string
		have []string
		uid  int
		want string // in the error; none if empty
	}{
		{"apt as root", []string{"apt-get"}, 0, ""},
		{"apt as another user", []string{"apt-get"}, 1000, "sudo apt-get install rabbitmq-server gcc libc6-dev"},
		{"brew", []string{"brew"}, 1000, ""},
		{"neither", nil, 0, "RabbitMQ, C compiler: neither apt-get nor brew is here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			scripts := map[string]string{}
			for _, name := range tt.have {
				scripts[name] = "exit 0"
			}
			fakePath(t, scripts)
			install, err := packageManager(tt.uid, missing)
			switch {
			case tt.want == "" && (err != nil || install == nil):
				t.Errorf("refused: %v", err)
			case tt.want != "" && (!errors.Is(err, ErrCannotInstall) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("no %q in: %v", tt.want, err)
			}
		})
	}
}

func TestBrewInstall(t *testing.T) {
	dir := fakePath(t, map[string]string{"brew": `echo "$*" >>"${0%/*}/calls"`})
	if err := brewInstall(t.Context(), io.Discard, []Tool{RabbitMQ, Redis}); err != nil {
		t.Fatal(err)
	}
	if got := lines(t, dir, "calls"); !slices.Equal(got, []string{"install --quiet rabbitmq redis"}) {
		t.Errorf("called brew %q", got)
	}
}

func TestAptInstallsWithoutStarting(t *testing.T) {
	// Each call notes what the policy answers meanwhile.
	note := `"$POLICY" 2>/dev/null; echo "${0##*/} $* policy=$?" >>"${0%/*}/calls"`
	tests := []struct {
		name   string
		apt    string
		policy string // an earlier one; none if empty
		want   []string
		err    string
	}{
		{
			"no policy", note, "",
			[]string{
				"apt-get -qq update policy=101",
				"apt-get -qq -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends rabbitmq-server gcc libc6-dev policy=101",
				"systemctl --quiet disable rabbitmq-server.service policy=101",
			}, "",
		},
		{
			"a policy of the machine's", note, "#!/bin/sh\nexit 104\n",
			[]string{
				"apt-get -qq update policy=104",
				"apt-get -qq -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends rabbitmq-server gcc libc6-dev policy=104",
				"systemctl --quiet disable rabbitmq-server.service policy=104",
			}, "",
		},
		{"failure", note + "\necho no network >&2; exit 100", "", []string{"apt-get -qq update policy=101"}, "no network"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			policy := filepath.Join(t.TempDir(), "policy-rc.d")
			if tt.policy != "" {
				if err := os.WriteFile(policy, []byte(tt.policy), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("POLICY", policy)
			dir := fakePath(t, map[string]string{"apt-get": tt.apt, "systemctl": note})
			err := apt{policy: policy}.install(t.Context(), io.Discard, []Tool{RabbitMQ, CCompiler})
			if (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("err = %v, want %q", err, tt.err)
			}
			if got := lines(t, dir, "calls"); !slices.Equal(got, tt.want) {
				t.Errorf("called\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			left, _ := os.ReadFile(policy) // none: empty
			if string(left) != tt.policy {
				t.Errorf("left the policy %q, was %q", left, tt.policy)
			}
		})
	}
}

// TestCompileC wants more than a compiler: the C library's headers.
func TestCompileC(t *testing.T) {
	fakePath(t, map[string]string{"good": "exit 0", "headerless": "exit 1"})
	for cc, want := range map[string]bool{"good": true, "headerless": false, "absent": false} {
		t.Setenv("CC", cc)
		if got := len(Missing(context.Background(), CCompiler)) == 0; got != want {
			t.Errorf("CC=%s: installed %v", cc, got)
		}
	}
}

func lines(t *testing.T, elem ...string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}
