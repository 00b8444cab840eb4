/*
 * The sidecar lock: records that their holder keeps open and locked (the
 * kernel's flock), guards around the removal of a dead one, and, with NODES,
 * peers of the fs-safe protocol, which know guards and no kernel lock.
 *
 * A step is a system call. A process may be killed before any of them, CRASHES
 * times in all, and starts again. The kernel then closes its descriptors, one
 * by one, and with each its lock. An inode number is given out again as soon as
 * no name and no descriptor holds it.
 *
 * Checked: never two holders; no live record or guard is removed; no state in
 * which nobody can go on before all have held the lock (safety run) and, with
 * -DPROGRESS, that all finish under weak fairness.
 *
 * Go processes may keep the file of their record and use it again (KEEP).
 */

#ifndef GOS
#define GOS 3
#endif
#ifndef NODES
#define NODES 0
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef CRASHES
#define CRASHES 1
#endif

/*
 * Each of these takes one rule out; run.sh expects an error for it:
 *
 * NO_RECHECK         after the lock, the name is not compared again
 * TRUST_WAKEUP       the end of a wait is taken for the lock
 * LOCK_AFTER_CREATE  the record has its name before its lock
 * UNLOCK_FIRST       release unlocks, then unlinks
 * PROBE_THEN_UNLINK  the dead record is unlocked before it is unlinked
 * NO_GUARD           reclaim without a guard: wrong with peers only
 * TRUST_LEGACY       a record without a witness is taken for one
 * NODE_NO_GUARD      a peer that ignores guards
 */

#define PROCS (GOS + NODES)
#define INODES (3 * PROCS)
#define NONE 0
#ifdef LOCK_AFTER_CREATE
#define WITH_LOCK false
#else
#define WITH_LOCK true
#endif

byte rec = NONE, guard = NONE;  /* what the two names hold */
byte locked[INODES + 1];        /* by whom, pid + 1 */
byte owner[INODES + 1];         /* the living process whose record or guard it is, pid + 1 */
byte opened[INODES + 1];        /* descriptors */
bool marked[INODES + 1];        /* a record or guard with a witness */
byte holders = 0;
byte finished = 0;
byte crashes = CRASHES;

#define FREE(i) (opened[i] == 0 && rec != i && guard != i)

/* lowest free number first: ext4 gives them out again at once */
inline create(x, withLock, withMark) {
	x = 1;
	do
	:: !FREE(x) -> x++
	:: else -> break
	od;
	opened[x] = 1; owner[x] = me + 1; marked[x] = withMark;
	locked[x] = (withLock -> me + 1 : 0)
}

inline close_(x) {
	if
	:: x != NONE ->
		if
		:: locked[x] == me + 1 -> locked[x] = 0
		:: else
		fi;
		opened[x]--;
		x = NONE
	:: else
	fi
}

/* nobody removes what a living process stands behind */
inline unlink_rec() {
	assert(rec == NONE || owner[rec] == 0 || owner[rec] == me + 1);
	rec = NONE
}

inline unlink_guard() {
	assert(guard == NONE || owner[guard] == 0 || owner[guard] == me + 1);
	guard = NONE
}

/* before each call the process may be killed; a dead process stands behind nothing */
#define STEP if :: crashes > 0 -> crashes--; goto killed :: true fi

/* a peer that dies with its guard leaves it for ever: that is its protocol */
#ifdef DIE_IN_GUARD
#define GUARDED_STEP STEP
#else
#define GUARDED_STEP skip
#endif

inline die() {
	i = 1;
	do
	:: i > INODES -> break
	:: else ->
		if :: owner[i] == me + 1 -> owner[i] = 0 :: else fi;
		i++
	od;
	i = 0
}

proctype Go(byte me) {
	byte cand = NONE, r = NONE, g = NONE, i = 0;
	byte round = 0;
	bool held = false, won = false;

again:	/* A1 */
	atomic { STEP; if :: guard != NONE -> goto waitguard :: else fi };
	atomic { STEP;
		if
		:: cand == NONE -> create(cand, WITH_LOCK, true)
		:: cand != NONE && locked[cand] == 0 -> locked[cand] = me + 1 /* one that was kept */
		:: cand != NONE && locked[cand] == me + 1 -> skip
		:: else -> close_(cand); create(cand, WITH_LOCK, true) /* a waiter has it still */
		fi };
	/* A3 */
	atomic { STEP;
		if
		:: rec == NONE -> rec = cand
		:: else -> goto open_
		fi };
#ifdef LOCK_AFTER_CREATE
	atomic { STEP;
		if
		:: locked[cand] == 0 -> locked[cand] = me + 1
		:: else -> close_(cand); goto again
		fi };
#endif
	/* A4 */
	atomic { STEP; if :: guard != NONE -> goto waitguard :: else fi };
same_:	atomic { STEP; if :: rec == cand -> goto hold :: else -> close_(cand); goto again fi };

open_:	/* A5 */
	atomic { STEP;
		if
		:: rec == NONE -> goto again
		:: else -> r = rec; opened[r]++
		fi };
	/* A6: wait in the kernel, or come back later where there is no witness */
	atomic { locked[r] == 0 ->
		STEP;
#ifdef TRUST_WAKEUP
		skip
#else
		locked[r] = me + 1
#endif
	};
	/* A7 */
#ifndef NO_RECHECK
	atomic { STEP; if :: rec != r -> close_(r); goto again :: else fi };
#endif
	/* A8 */
#ifndef TRUST_LEGACY
	atomic {
		if
		:: !marked[r] && owner[r] != 0 -> locked[r] = 0; goto poll
		:: else /* a witness; or its holder is dead, which the caller says and is right */
		fi };
#endif

#ifdef PROBE_THEN_UNLINK
	atomic { STEP; locked[r] = 0 };
#endif
	/* R1 */
#ifndef NO_GUARD
	atomic { STEP; create(g, true, true) };
	atomic { STEP;
		if
		:: guard == NONE -> guard = g
		:: else -> close_(g); close_(r); goto again
		fi };
	/* R2 */
#ifndef NO_RECHECK
	atomic { STEP; if :: rec != r -> won = false; goto unguard :: else fi };
#endif
#endif
	/* R3, R4 */
	atomic { STEP; unlink_rec() };
	atomic { STEP; if :: rec == NONE -> rec = cand; won = true :: else -> won = false fi };
unguard:	/* R5, R6 */
#ifndef NO_GUARD
	atomic { STEP; unlink_guard() };
	atomic { STEP; close_(g) };
#endif
	atomic { STEP; close_(r); if :: won -> won = false; goto hold :: else -> goto again fi };

hold:	atomic { STEP; holders++; held = true; assert(holders == 1) };
	atomic { STEP; holders--; held = false };
	/* release */
	atomic { STEP; assert(rec == cand) };
#ifdef UNLOCK_FIRST
	atomic { STEP; locked[cand] = 0 };
#endif
	atomic { STEP; unlink_rec() }; /* or renamed away, with KEEP */
#ifdef KEEP
	atomic { STEP; if :: locked[cand] == me + 1 -> locked[cand] = 0 :: else fi };
#else
	atomic { STEP; close_(cand) };
#endif
	round++;
	if :: round < ROUNDS -> goto again :: else -> goto end_ fi;

poll:	atomic { rec != r || owner[r] == 0 -> close_(r); goto again };

waitguard:
	atomic { STEP;
		if
		:: guard == NONE -> goto guarded
		:: else -> g = guard; opened[g]++
		fi };
	atomic { if :: !marked[g] -> close_(g); guard == NONE || marked[guard]; goto guarded :: else fi };
	atomic { locked[g] == 0 -> STEP; locked[g] = me + 1 };
	atomic { STEP; if :: guard == g -> unlink_guard() :: else fi };
	atomic { STEP; close_(g) };
guarded:	/* what was published before the wait may still stand */
	atomic { if :: cand != NONE && rec == cand -> goto same_ :: else -> goto again fi };

killed:
	atomic { die(); if :: held -> holders--; held = false :: else fi; won = false };
	atomic { close_(cand) };
	atomic { close_(r) };
	atomic { close_(g) };
	goto again;

end_:	atomic { close_(cand); finished++ }
}

/*
 * A peer. It holds no kernel lock, sees a dead record only by its caller's
 * approval, which is right here, and takes a guard without a mark.
 */
proctype Node(byte me) {
	byte cand = NONE, r = NONE, g = NONE, i = 0;
	bool held = false;

again:
#ifndef NODE_NO_GUARD
	atomic { guard == NONE };
#endif
	atomic { STEP;
		if
		:: rec == NONE -> create(cand, false, false); rec = cand; goto hold
		:: else -> r = rec; opened[r]++ /* its bytes are remembered */
		fi };
	/* wait, or be told that the holder is dead */
	atomic {
		if
		:: rec != r -> close_(r); goto again
		:: rec == r && owner[r] == 0 -> skip
		fi };
#ifndef NODE_NO_GUARD
	atomic { STEP;
		if
		:: guard == NONE -> create(g, false, false); guard = g
		:: else -> close_(r); goto again
		fi };
#endif
	atomic { GUARDED_STEP; if :: rec != r -> goto unguard :: else fi };
	atomic { GUARDED_STEP; unlink_rec() };
	atomic { GUARDED_STEP; if :: rec == NONE -> create(cand, false, false); rec = cand :: else fi };
unguard:
#ifndef NODE_NO_GUARD
	atomic { GUARDED_STEP; unlink_guard(); close_(g) };
#endif
	atomic { close_(r); if :: cand != NONE -> goto hold :: else -> goto again fi };

hold:	atomic { STEP; holders++; held = true; assert(holders == 1) };
	atomic { STEP; holders--; held = false };
	atomic { STEP; assert(rec == cand) };
	atomic { STEP; unlink_rec(); close_(cand) };
	goto end_;

killed:	/* it does not start again: what it leaves is for others to judge */
	atomic { die(); if :: held -> holders--; held = false :: else fi };
	atomic { close_(cand); close_(r); close_(g) };

end_:	finished++
}

init {
	byte p = 0;
	atomic {
		do
		:: p < GOS -> run Go(p); p++
		:: p >= GOS && p < PROCS -> run Node(p); p++
		:: p == PROCS -> break
		od
	}
}

#ifdef PROGRESS
ltl all_finish { <> (finished == PROCS) }
#endif
