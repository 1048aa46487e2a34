package console

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// binary is the command, which TestMain has built.
var binary string

// build builds the command. The caller calls remove.
func build() (remove func(), err error) {
	dir, err := os.MkdirTemp("", "strikes-console-")
	if err != nil {
		return nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	binary = filepath.Join(dir, "strikes")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/strikesmq/strikes/cmd/strikes").CombinedOutput()
	if err != nil {
		return remove, fmt.Errorf("go build: %w: %s", err, out)
	}
	return remove, nil
}

// command is `strikes` with args on the plant's servers.
func (p *plant) command(args ...string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), binary, args...)
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "STRIKES_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "AMQP_URL="+p.amqpURL, "REDIS_URL="+p.redisURL, "STRIKES_PREFIX="+p.prefix, "STRIKES_MANAGEMENT_URL="+p.managementURL)
	return cmd
}
