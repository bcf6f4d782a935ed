// Package election is Apache's Fast Leader Election: servers exchange votes until they
// agree on a leader (protocol page, section 12).
//
// It is a state machine without clock, link or goroutine. Its owner, one goroutine,
// passes it messages and the time, and sends what Messages returns. Messages may be
// lost, repeated and reordered: a link that is made again repeats its last message,
// which may be very old. So votes are compared by their election epoch.
//
// A server is looking from Look until an election ends. Then Elected returns the result,
// the owner takes the role, and calls Settle, which sets what servers that still look are
// answered. To leave the role, the owner calls Look again.
//
// # Guarantees
//
// Safety does not depend on this package. Two servers may both take themselves for
// elected for a moment, or a server may be elected that is not the best candidate:
// discovery refuses a leader whose history is shorter than that of a voter of its quorum,
// and only one leader can have a quorum. A wrong result costs one more election. So the
// rules below accept a rare wrong result to save time in every election.
//
// Invariants, each with a test that carries its number:
//
//  1. The election epoch of a server never goes back while it runs, not even
//     when it joins servers with a smaller one, where Apache's does. So no old
//     vote of a server can pass for a vote of its present election.
//  2. Within an election epoch a server's proposal only gets better.
//  3. Only a voter with weight is elected. Without a vote or weight of its own a
//     server can still join.
//  4. A server ends its election only with a quorum: of votes for its own proposal, or
//     of servers that have settled on a leader, if that leader reports over a link that
//     is up that it leads. The vote of a server that defers is for the best of the others.
//  5. No message causes an endless exchange: only a looking server is answered, with a
//     vote; a vote that is not worse than the receiver's own is not answered.
//  6. The same calls make the same messages in the same order.
//
// # When an election ends
//
// Apache waits for 200 ms (Config.FinalizeWait) once a quorum votes for its proposal,
// because the vote of a better candidate may be on its way. Config.EarlyFinish ends the
// wait when no voter is left that could name a better candidate. Each voter's first vote
// in an election is for itself or a better candidate, and its votes only get better. So
// if every voter with weight votes for the proposal in this election epoch, there is no
// better candidate.
//
// The server does not wait for a voter whose link is down because its process is gone
// (Unreachable): that voter does not vote any more, and after a restart it starts a new
// election. If the voter is alive and only this link is broken, the other servers may
// learn of a better candidate from it and elect that one, while this server elects a worse
// one. That is safe, see above: this server looks again when it finds no leader or no
// followers, and the others are not disturbed. The same can happen to Apache if the link
// is broken for longer than its wait.
//
// A server whose disk stalls cannot vote, and its link is up (Withdraw). It endorses what
// the others agree on: when a quorum without it votes for one candidate, it sends them the
// same vote. To others this is the vote of a server that has adopted the best candidate
// after all others had, so Apache's servers understand it. It changes no result, since it
// comes after a quorum, and ends the wait of servers that have EarlyFinish.
//
// A server that has handed the leadership over (Defer) knows the longest history, its own, and so the
// best candidate before the others have agreed. It follows that one at once, and says so. For an
// Apache server this is the end of its election, without the wait, if it makes up a quorum; it
// drops the message if it has heard a quorum of votes before.
//
// A follower may connect to its leader before the leader has ended its election: an Apache
// server that sees its quorum now leads 200 ms later. So the follower should retry for that
// long.
//
// # Candidates that cannot be followed
//
// A server may win every election and be out of reach: its name does not resolve at the
// others, or its quorum port refuses them. Apache's servers elect it again and again. Here the
// owner of an election sets such a candidate aside for a while (SetAside), and this server
// votes as if it were no candidate.
//
// Safety is that of any other wrong vote, see above: discovery refuses a leader that lacks
// what a voter of its quorum has.
//
// Liveness: if a quorum of voters can follow each other, and all of them have set aside the
// candidates that they cannot follow, they agree on the best of the rest, and the candidates
// that were set aside join it. The owner sets a candidate aside for longer than the others need
// to find out the same, so the times overlap. The time ends, so a candidate without which
// there is no quorum is elected once it can be followed. A server that has set no candidate aside
// may disagree with one that has: their elections are disputed, and begin again in the
// next election epoch, until the time is over. Nothing is said to other servers, and a minority
// that cannot reach a leader disturbs no one: it joins the leader later. An owner that has led
// without followers declares its own server unfit for as long (SetUnfit): servers of Apache's, which set no
// candidate aside, then elect another one. It takes that back if its history is longer than the new leader's. An
// owner that leads need not make way for a candidate that it has set aside: it may gather a quorum without it (QuorumWithout).
//
// # Where it differs from Apache
//
// The form of messages is Apache's; some are sent sooner, and some not at all:
//
//   - A looking server that hears a worse vote of its own election epoch answers
//     it. Apache is silent, and the other waits for a timer if it missed ours.
//   - A looking server votes for a better candidate that says, in the same election epoch, that it leads.
//     Apache's needs the word of a quorum. If the servers that elected that candidate have gone, and its own
//     vote was lost, it and the looking server would wait for each other.
//   - Votes that came just before Look count as if they came just after. So two
//     servers whose leader died need one message, though one noticed first.
//   - Servers that were answered before the leader's epoch was fixed are answered again
//     when it is.
//   - A server without weight gives up its own candidacy for any other.
//   - A stranger (not a voter) is answered only while it looks, and by a server that
//     looks too only once between two broadcasts of that: Apache answers always, so that
//     two of them can keep each other busy.
//   - A server that is not a voter sends no answers, and does not elect: it joins. If the
//     voters may change (Electorate.Changes) it does both.
//   - A voter that has no vote at present, because it heals or its disk stalls, votes for
//     no server where another one votes for it. Apache's servers ignore that.
//   - This package ignores the configurations in notifications; its owner reads them.
//   - A server that has seen a change of the voters which is not committed appends the
//     version and the text of the change to its notifications (Notification.Seen, SeenText); one that knows
//     that its history has none appends an empty text.
package election
