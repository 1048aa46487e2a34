package console

import (
	"os"
	"os/exec"
	"strings"

	"github.com/strikesmq/strikes/internal/servertest"
)

// command is `strikes` with args on the plant's servers.
func (p *plant) command(args ...string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), servertest.Program(p.t, "cmd/strikes"), args...)
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "STRIKES_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, "AMQP_URL="+p.amqpURL, "STRIKES_STORE_URL="+p.storeURL, "STRIKES_PREFIX="+p.prefix,
		"STRIKES_MANAGEMENT_URL="+p.managementURL)
	return cmd
}
