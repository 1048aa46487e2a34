package main

// mutant is a broken variant, and the check that has to catch it.
type mutant struct {
	name  string
	edits []edit
	by    check
	shows string // what the check says of it
}

// edit replaces a piece of code that occurs once in a file.
type edit struct{ file, old, broken string }

// check is tests of one package.
type check struct {
	name, pkg, run string
	args           []string
}

var (
	simulation = check{name: "simulation", pkg: "consumer", run: "^TestSimulation$", args: []string{"-sim.n=5000"}}
	scripts    = check{name: "scripts on a fake Redis", pkg: "counter", run: "^(TestModel|TestSteps)$", args: []string{"-rapid.nofailfile"}}
	apart      = check{name: "messages counted apart", pkg: "counter", run: "^(TestMessagesAreCountedApart|TestKeys)$"}
	lanes      = check{name: "simulation of held lanes", pkg: "consumer", run: "^TestSimulationLanes$", args: []string{"-sim.n=2000"}}
	planned    = check{name: "plan of a lane's replay", pkg: "counter", run: "^TestLanePlanForTaken$"}
	refused    = check{name: "fields that Consume refuses", pkg: "consumer", run: "^TestConsumeRefusesFields$"}
)

var mutants = []mutant{
	{
		name: "one last token instead of the set", by: simulation, shows: "I4",
		edits: []edit{{
			"counter/rules/record.go",
			"	r.Tokens = append(r.Tokens, Token{token, as})\n",
			"	r.Tokens = Tokens{{token, as}}\n",
		}},
	},
	{
		name: "one last token instead of the set, in the scripts", by: scripts, shows: "--- FAIL",
		edits: []edit{{
			"counter/scripts/fail.lua",
			"  tokens = tokens .. ';' .. token .. '=f'\n",
			"  tokens = ';' .. token .. '=f'\n",
		}},
	},
	{
		name: "the record deleted before the dead-lettering", by: simulation, shows: "deleted the record",
		edits: []edit{{
			"counter/memory.go",
			"	if keep > 0 {\n",
			"	if reply.Verdict == VerdictExhausted {\n		delete(m.records, a.Message)\n	} else if keep > 0 {\n",
		}},
	},
	{
		name: "the record deleted before the dead-lettering, in the scripts", by: scripts, shows: "--- FAIL",
		edits: []edit{{
			"counter/scripts/fail.lua",
			"  elseif known ~= 'e' and state == '.' then\n    live, indexed, exhausts = ttl, true, true\n",
			"  elseif known ~= 'e' and state == '.' then\n    call('DEL', record)\n    live = nil\n",
		}},
	},
	{
		name: "the open attempt of another token closed", by: simulation, shows: "I7",
		edits: []edit{{
			"counter/rules/fail.go",
			"	if r.OpenToken == a.Token {\n		r.close()\n	}\n\n	verdict, spent :=",
			"	r.close()\n\n	verdict, spent :=",
		}},
	},
	{
		name: "the open attempt of another token closed, in the scripts", by: scripts, shows: "--- FAIL",
		edits: []edit{{
			"counter/scripts/fail.lua",
			"if open == token then open, mode = '.', '.' end\n",
			"open, mode = '.', '.'\n",
		}},
	},
	{
		name: "no isolation of suspects", by: simulation, shows: "to be isolated",
		edits: []edit{{
			"consumer/start.go",
			"	return s.acquire(ctx, d, everything)\n",
			"	return s.acquire(ctx, d, 1)\n",
		}},
	},
	{
		name: "the isolation lock released while a step is unanswered, and no gate", by: simulation, shows: "I5",
		edits: []edit{{
			"consumer/isolation.go",
			"		s.isolation.gate.shut()\n",
			"		s.decided(d)\n",
		}},
	},
	{
		name: "abandoned handlers that do not count as running", by: simulation, shows: "I5",
		edits: []edit{{
			"consumer/decide.go",
			"	if abandoned > 0 {\n",
			"	if abandoned < 0 {\n",
		}},
	},
	{
		name: "a key without the queue", by: apart, shows: "--- FAIL",
		edits: []edit{{
			"counter/key.go",
			`return o.Prefix + ":{" + encode(vhost) + "/" + encode(queue) + "}:"`,
			`return o.Prefix + ":{" + encode(vhost) + "}:"`,
		}},
	},
	{
		name: "basic.reject instead of basic.nack", by: simulation, shows: "basic.reject",
		edits: []edit{{
			"consumer/internal/acks/acks.go",
			"channel.Nack(tag, multiple, true)",
			"channel.Reject(tag, true)",
		}},
	},
	{
		name: "a connection that recovers by itself accepted", by: refused, shows: "--- FAIL: TestConsumeRefusesFields",
		edits: []edit{{
			"consumer/consumer.go",
			"conn.Config.Recovery != nil",
			"false",
		}},
	},
	{
		name: "another message of the id taken for an old copy, in the scripts", by: scripts, shows: "--- FAIL",
		edits: []edit{{
			"counter/scripts/record.lua",
			"stale = body == mark and (",
			"stale = (",
		}},
	},
	{
		name: "a copy confirmed with the next hop", by: simulation, shows: "--- FAIL",
		edits: []edit{{
			"counter/rules/end.go",
			"	r.Move.confirm(hop)\n",
			"	r.Move.confirm(hop + 1)\n",
		}},
	},
	{
		name: "the successor of a dead letter run in its held lane", by: lanes, shows: "began before",
		edits: []edit{{
			"counter/memory_lane.go",
			"s.Place.Number == 0 && len(b.open) == 0:",
			"s.Place.Number == 0:",
		}},
	},
	{
		name: "a lane step of an earlier owner accepted", by: lanes, shows: "began before",
		edits: []edit{{
			"counter/memory_lane.go",
			"	case s.Owner:\n	default:\n",
			"	default:\n	case \"none\":\n",
		}},
	},
	{
		name: "a lane replayed by what was read before its dead letters were taken", by: planned, shows: "--- FAIL",
		edits: []edit{{
			"counter/lane_plan.go",
			"	n, _ := slices.BinarySearch(now.Open, upTo+1)\n",
			"	now = s\n	n, _ := slices.BinarySearch(now.Open, upTo+1)\n",
		}},
	},
	{
		name: "settled in a later session", by: simulation, shows: "I1",
		edits: []edit{
			{
				"consumer/deliver.go",
				"	s.acks.Open(&d.entry)\n",
				"	lastSession.Store(s.isolation, from.Acknowledger)\n	s.acks.Open(&d.entry)\n",
			},
			{
				"consumer/deliver.go",
				"	\"fmt\"\n",
				"	\"fmt\"\n	\"sync\"\n",
			},
			{
				"consumer/deliver.go",
				"		next = s.awaitRoute(ctx, d)\n	}\n",
				"		next = s.awaitRoute(ctx, d)\n	}\n	d.later(s)\n",
			},
			{
				"consumer/deliver.go",
				"// attempt is one attempt at a delivery.\n",
				later + "// attempt is one attempt at a delivery.\n",
			},
		},
	},
}

// later settles a delivery in the process's last session instead of its own.
const later = `var lastSession sync.Map

func (d *delivery) later(s *session) {
	last, _ := lastSession.Load(s.isolation)
	d.entry.Channel = last.(amqp.Acknowledger)
}

`
