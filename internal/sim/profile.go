package sim

import (
	"math/rand/v2"
	"time"
)

// profile is what a seed decides on before it begins: the ensemble, its settings
// and what goes wrong how often.
type profile struct {
	voters, observers int
	electorate        electorate
	masters           bool // observers use any voter
	clients           int
	length            time.Duration // until everything is healed
	startSpread       time.Duration

	tick                 time.Duration
	initLimit, syncLimit int
	stallAfter           time.Duration // of a leader's disk, until it hands over
	drift                float64       // how much faster or slower clocks run, at most
	minSession           time.Duration
	maxSession           time.Duration
	awaitExpiry          bool

	window     int
	sizeFactor float64
	forceSnap  bool
	snapCount  int
	logBytes   int64

	promptDisk    bool // no worker waits for it to write transactions
	preallocBytes int64
	lastCounter   uint32
	purge         bool
	quota         quota // hard limits of /d; zero is none

	loopDelay, applyDelay, taskDelay time.Duration // at most
	diskDelay                        time.Duration // of one fsync, at most
	slowDisk                         float64       // chance that one takes long
	netDelay                         time.Duration // at most; at least a tenth
	slowPacket                       float64       // chance that one is late
	split                            float64       // chance that packets that are sent together arrive one by one

	noteLoss, noteRepeat float64
	faultEvery           time.Duration // on average; 0 is never
	faults               [faultKinds]float64
	down                 time.Duration // how long a member stays away, at most

	localSessions, upgrading bool          // sessions are local, and become global with their first ephemeral
	readOnly                 bool          // members without a quorum serve clients that only read
	readOnlyAfter            time.Duration // how long they look for a leader before
	stranger                 strangerKind
	reconfigs                reconfigurations
	handOvers                time.Duration // how often the leader is asked to hand over, on average; 0 is never

	think    time.Duration // of a client between requests, at most
	pipeline int           // requests that a client has on their way, at most
	moves    float64       // chance that it goes to another member instead
	away     time.Duration // how long it takes to, at most
	sleeps   float64       // chance that it is away for so long that its session ends
}

// drawProfile draws a seed's profile.
func drawProfile(r *rand.Rand) profile {
	pick := func(ds ...time.Duration) time.Duration { return ds[r.IntN(len(ds))] }
	pickInt := func(ns ...int) int { return ns[r.IntN(len(ns))] }
	ms := time.Millisecond
	p := profile{
		voters: pickInt(3, 3, 3, 3, 5), observers: pickInt(0, 0, 0, 1),
		clients: 1 + r.IntN(4),
		length:  time.Duration(1000+r.IntN(3000)) * ms,

		startSpread: pick(0, 20*ms, 500*ms),
		tick:        pick(100*ms, 200*ms), initLimit: 5 + r.IntN(6), syncLimit: 2 + r.IntN(4),
		minSession: 400 * ms, maxSession: pick(1000*ms, 2000*ms, 6000*ms),
		awaitExpiry: r.IntN(4) == 0,

		window: pickInt(1, 5, 20, 500), sizeFactor: [...]float64{-1, 0, 0.33, 4}[r.IntN(4)],
		forceSnap: r.IntN(20) == 0,
		snapCount: pickInt(5, 20, 60, 100000), logBytes: int64(pickInt(0, 4096, 16384)),
		purge: r.IntN(4) == 0,

		loopDelay: pick(50*time.Microsecond, 500*time.Microsecond), applyDelay: pick(50*time.Microsecond, 2*ms, 20*ms),
		taskDelay: pick(ms, 20*ms), diskDelay: pick(200*time.Microsecond, 3*ms, 20*ms),
		slowDisk: [...]float64{0, 0, 0.01, 0.05}[r.IntN(4)],
		netDelay: pick(200*time.Microsecond, 2*ms, 20*ms), slowPacket: [...]float64{0, 0, 0.01}[r.IntN(3)], split: [...]float64{0, 0.1, 0.5}[r.IntN(3)],

		noteLoss: [...]float64{0, 0.05, 0.3}[r.IntN(3)], noteRepeat: [...]float64{0, 0.1}[r.IntN(2)],
		faultEvery: pick(50*ms, 150*ms, 400*ms, 400*ms, 1000*ms), down: pick(20*ms, 300*ms, 1000*ms),

		think: pick(2*ms, 20*ms, 100*ms, 600*ms), pipeline: pickInt(1, 4),
		moves: [...]float64{0, 0.01, 0.1}[r.IntN(3)], away: pick(ms, 50*ms),
	}
	p.drawRest(r)
	return p
}

// drawRest draws the settings that few runs have, and what depends on other settings.
func (p *profile) drawRest(r *rand.Rand) {
	if p.promptDisk = r.IntN(2) == 0; p.promptDisk {
		p.preallocBytes = 128 << 10
	} else {
		p.preallocBytes = 16 << 10
	}
	if r.IntN(6) == 0 {
		p.lastCounter = uint32(10 + r.IntN(50))
	}
	p.electorate = drawElectorate(r, p.voters)
	p.stallAfter = [...]time.Duration{500 * time.Millisecond, 2 * time.Second, 30 * time.Second}[r.IntN(3)]
	p.drift = [...]float64{0, 0, 0.001, 0.05}[r.IntN(4)]
	if r.IntN(5) == 0 {
		p.quota = quota{count: int64(2 + r.IntN(4)), bytes: int64(10 + r.IntN(40))}
	}
	if r.IntN(30) == 0 {
		p.length += 20 * time.Second
	}
	if r.IntN(3) == 0 {
		p.sleeps, p.moves = 0.5, 0.1
	}
	if r.IntN(15) == 0 {
		p.faultEvery = 0
	}
	for i := range p.faults {
		p.faults[i] = faultWeights[i] * [...]float64{0, 1, 1, 4}[r.IntN(4)]
	}
}

// drawVariants draws what a run has beside drawProfile's settings. r is a source of
// its own, so that a seed without a variant runs as it did before there was the variant.
func (p *profile) drawVariants(r *rand.Rand) {
	if r.IntN(4) == 0 {
		p.localSessions, p.upgrading = true, r.IntN(3) > 0
	}
	if r.IntN(4) == 0 {
		p.readOnly = true
		p.readOnlyAfter = [...]time.Duration{time.Millisecond, 300 * time.Millisecond}[r.IntN(2)] // at least a tick
	}
	if r.IntN(6) == 0 {
		p.drawStranger(r)
	}
	if r.IntN(4) == 0 && p.stranger != amongHealthy {
		p.handOvers = [...]time.Duration{100 * time.Millisecond, 500 * time.Millisecond}[r.IntN(2)]
	}
	p.masters = r.IntN(2) == 0
}

// size is how many members there are.
func (p *profile) size() int { return p.voters + p.observers + p.reconfigs.joiners }

// drawStranger has a stranger act, among faults or in an ensemble where nothing fails by
// itself: no link, disk or clock is so slow that a server would be given up.
func (p *profile) drawStranger(r *rand.Rand) {
	p.stranger = amongFaults
	if r.IntN(3) > 0 {
		return
	}
	p.stranger = amongHealthy
	p.faultEvery, p.lastCounter, p.drift = 0, 0, 0
	p.slowDisk, p.slowPacket, p.noteLoss = 0, 0, 0
	p.tick, p.syncLimit = 200*time.Millisecond, 5
	p.netDelay, p.diskDelay = min(p.netDelay, 2*time.Millisecond), min(p.diskDelay, 3*time.Millisecond)
}
