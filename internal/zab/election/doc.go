// Package election is Fast Leader Election as Apache speaks it: who is to lead,
// found by exchanging votes (protocol page, section 12).
//
// It is a state machine without clock, link or goroutine. Its owner, one
// goroutine, tells it what came and what time it is, and sends what Messages
// returns. Messages may be lost, repeated, and reordered: a link that is made
// again sends its last message again, which may be very old. Votes are judged
// by their election epoch.
//
// A server is looking from Look until an election ends; then Elected says for
// whom, the owner takes the role, and Settle says what those who still look are
// to be told. Leaving the role is Look again.
//
// # What it promises
//
// Safety is not its business. Two servers may both believe for a moment to be
// elected, or one that is not the best may be: discovery refuses a leader that
// knows less than a voter of its quorum, and only one can have a quorum. A wrong
// result costs a round. So the rules below trade a rare round against time in
// every election.
//
// Invariants, each with a test that carries its number:
//
//  1. The election epoch of a server never goes back while it runs, not even
//     when it joins servers with a smaller one, where Apache's does. So no old
//     vote of a server can pass for a vote of its present election.
//  2. Within an election epoch a server's proposal only gets better.
//  3. Only a voter with weight is elected. Without a vote or weight of its own a
//     server can still join.
//  4. A server ends its election only with a quorum: of votes for what itself
//     proposes, or of servers that have settled on a leader which says itself,
//     over a link that is up, that it leads.
//  5. No message makes an endless exchange: only a looking server is answered,
//     with a vote; one that is not worse than the receiver's own makes no answer.
//  6. The same calls make the same messages in the same order.
//
// # When an election ends
//
// Apache waits for 200 ms (Config.FinalizeWait) once a quorum votes for its
// proposal: a better candidate may be about to speak. Config.EarlyFinish ends
// the wait when nobody is left whom it could be worth waiting for. Each voter's
// first vote in an election is for itself or for better, and its votes only get
// better. So if every voter with weight votes for the proposal in this election
// epoch, no better candidate exists.
//
// A voter whose link is down because its process is gone (Unreachable) is not
// waited for. It can vote no more, and if it comes back it begins anew. What if
// it is alive, and only this link is broken? Then the others may know a better
// candidate through it, and go on to that one, while this server ends for a
// worse. That is safe, as said. This server then looks again when it finds no
// leader or no followers; the others are not disturbed. The same can happen to
// Apache when the break lasts longer than its wait.
//
// An early follower comes to a leader that may still wait: an Apache that
// sees its quorum now leads 200 ms later. It should knock again for that long.
//
// # Where it differs from Apache
//
// All of it is invisible on the wire but for messages sent sooner:
//
//   - A looking server that hears a worse vote of its own election epoch answers
//     it. Apache is silent, and the other waits for a timer if it missed ours.
//   - Votes that came just before Look count as if they came just after. So two
//     servers whose leader died need one message, though one noticed first.
//   - Servers that were answered before the leader's epoch was fixed are told it.
//   - A server without weight gives up its own candidacy for any other.
//   - A stranger (not a voter) is answered only while it looks: Apache answers
//     always, so that two of them can keep each other busy.
//   - A server that is no voter answers nobody, and does not elect: it joins.
//   - The configurations in notifications are ignored, as Apache does without
//     reconfiguration.
package election
