package main

// long names the tests that run servers of their own again and again, end many processes, or work for more than ten seconds: make test
// leaves them out, make test-long runs them. A package without names is long as a whole.
var long = map[string][]string{
	"integration": {
		"TestLaterBrokerKilled", "TestBrokerKilledInTheMiddle", "TestReplayKilled", "TestReplayStopped", "TestReplayRate", "TestPushKilled",
		"TestPauseKeepsTheOrder", "TestBrowseChangesNothing", "TestBrowseTakesConstantMemory", "TestGoBlocksInAModuleOfTheirOwn",
		"TestTopologyDeadLetterLoops", "TestDoctorGrantOnACluster", "TestDoctorExaminesACluster", "TestDoctorSeesAMinority", "TestLibraryNeedsNoLaboratory",
		"TestMissingDeadLetterOfALane", "TestLanesOfALostStore", "TestPushDocument", "TestHarnessPrivateServers",
	},
	"cmd/strikes": {
		"TestServers", "TestGrants", "TestPastedCommands", "TestDeadOfMany", "TestStatusWhenServersAreAway", "TestThousandOrders",
		"TestStatusOfASuspect", "TestTakenIsBestEffort",
	},
	"integration/console":          {"TestAccessible", "TestHostileTexts", "TestServersAway", "TestScale", "TestManyLanes"},
	"counter":                      {"TestModel", "TestLanesModel", "TestLargestRecord", "TestOldTokensAreForgotten"},
	"consumer":                     {"TestSimulationLanes"},
	"integration/internal/cluster": nil,
	"integration/servers":          nil,
	"integration/release":          nil,
	"integration/figures":          nil,
	"integration/bench":            nil,
	"integration/compare":          nil,
}

// seconds says about how long the longest tests of a package take. Only their ratio matters. Each other test counts as one second.
var seconds = map[string]map[string]int{
	"integration": {
		"TestLaterBrokerKilled": 70, "TestReplayStopped": 60, "TestOrder": 60, "TestPauseKeepsTheOrder": 50, "TestReplayKilled": 50,
		"TestBrokerKilledInTheMiddle": 45, "TestGoBlocksInAModuleOfTheirOwn": 40, "TestPublishThroughCutConnections": 35, "TestPush": 30,
		"TestPushKilled": 30, "TestKillerIsDeadLetteredAndNeighboursAreNot": 30, "TestHoldLanes": 30, "TestPushDocument": 30, "TestMissingDeadLetterOfALane": 30,
		"TestBrowsePartIsShort": 26, "TestPauseStopsEveryProcess": 26, "TestDoctorRaisesNoFalseAlarm": 25, "TestDoctorCommandsMend": 23,
		"TestBrowseTakesConstantMemory": 22, "TestReplayRate": 20, "TestReplayAll": 20, "TestReplayPassesOver": 20, "TestLaterQueueGone": 20,
		"TestBrowsePart": 18, "TestBrowseChangesNothing": 16, "TestUndecodableTakesNoNeighbour": 20, "TestDoctorFindsWhatIsWrong": 19,
		"TestDrainLosesNoAck": 19, "TestDoctorProbesTheLanding": 15, "TestReplaysTogether": 15, "TestPushOutage": 14, "TestFragmentsCompile": 14,
		"TestDoctorGrantOnACluster": 12, "TestReplayChoice": 12, "TestPublishBesideAnUnknownExchange": 12, "TestOperatorsAreObeyedAtTheNextStep": 12,
		"TestLibraryNeedsNoLaboratory": 11, "TestReplayLosesItsBroker": 11, "TestDoctorExaminesACluster": 10, "TestHarnessPrivateServers": 10,
		"TestTerminatedProcessChargesNothing": 10, "TestTopologyDeadLettersMayBeLookedAt": 10, "TestLaterKilled": 10,
	},
	"cmd/strikes": {
		"TestGrants": 60, "TestDeadOfMany": 50, "TestStatusWhenServersAreAway": 50, "TestThousandOrders": 28, "TestStatusDuringReplay": 28,
		"TestStatusOfASuspect": 28, "TestDemo": 9, "TestDemoOnStore": 8, "TestTakenIsBestEffort": 8, "TestDemoEnds": 6,
	},
	"integration/console": {
		"TestAccessible": 60, "TestHostileTexts": 38, "TestIncident": 27, "TestScale": 25, "TestServersAway": 25, "TestTwoOperators": 10,
		"TestReplay": 9,
	},
}
