//go:build linux

package cli_test

import (
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// testFailover: in the middle of a conversation the tier that speaks the client's dialect goes down, the next speaks another
// one, and the first comes back. The client notices nothing, and neither provider sees anything of the other's.
func (c *e2eClients) testFailover(t *testing.T) {
	agents := map[string]*e2eAgent{"Claude Code": claudeAgent(), "Codex": codexAgent(), "Gemini CLI": geminiAgent(), "opencode": opencodeAgents()[0]}
	for _, a := range sdkAgents() {
		agents[a.name] = a
	}
	for _, test := range []struct {
		client, second string
		status         int
	}{
		{"Claude Code", "openai-chat", 529}, {"Claude Code", "openai-responses", 500}, {"Claude Code", "gemini", 529},
		{"Codex", "anthropic", 500}, {"Codex", "gemini", 503},
		{"Gemini CLI", "anthropic", 503}, {"opencode", "openai-responses", 500},
		{"Anthropic SDK 1.14", "gemini", 529}, {"Anthropic SDK 0.137", "openai-responses", 500}, {"OpenAI SDK, chat", "anthropic", 503},
		{"OpenAI SDK, responses", "openai-chat", 500}, {"OpenAI SDK, responses", "anthropic", 500}, {"Google Gen AI SDK", "openai-responses", 503},
	} {
		t.Run(test.client+" to "+test.second, func(t *testing.T) {
			t.Parallel()
			c.testTierAway(t, agents[test.client], test.second, test.status)
		})
	}
}

func (c *e2eClients) testTierAway(t *testing.T, agent *e2eAgent, second string, status int) {
	own, other := e2eSpeak(t, "k1", agent.dialect), e2eSpeak(t, "k2", second)
	own.key.Tier, other.key.Tier = "first", "second"
	p := c.startChain(t, "session-sticky", `[{"name":"first"},{"name":"second"}]`, own, other)
	u := c.newUser(t, p)
	tools := demo.Step{Thinking: "Two files.", Text: "I read them.", Tools: agent.tools(u.dir)}
	answer := demo.Step{Thinking: "The walrus knows.", Text: e2eAnswer}
	talk := func(turn int) {
		t.Helper()
		if said := agent.talk(t, u, agent.modes[len(agent.modes)-1], turn); said != e2eAnswer {
			t.Fatalf("turn %d: the user was told %q", turn, said)
		}
	}

	if agent.late {
		own.Push(answer)
	} else {
		own.Push(tools, answer)
	}
	talk(0)
	own.Always(demo.Step{Status: status})
	if agent.late {
		other.Push(answer)
	} else {
		other.Push(tools, answer)
	}
	talk(1)
	u.reset(t)
	own.Always(answer)
	talk(2)

	var keys []string
	for _, l := range p.generating(t) {
		if l.Outcome != "ok" || l.Status != 200 {
			t.Errorf("journal: %+v", l)
		}
		keys = append(keys, l.Key)
	}
	want := "k1 k1 k2 k2 k1"
	if agent.late {
		want = "k1 k2 k1"
	}
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("keys %s, want %s", got, want)
	}
}

// reset clears all cooldowns, as the operator does.
func (u *e2eUser) reset(t *testing.T) {
	t.Helper()
	p := u.proxy
	run := u.run(t, 0, nil, p.binary, "reset", "--config", p.config, "--data-dir", p.data)
	if !strings.Contains(run.stdout, "reset") {
		t.Errorf("reset: %s%s", run.stdout, run.stderr)
	}
}
