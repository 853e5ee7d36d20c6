/**
 * Every short sequence, none left out: one holder, two waiters, an operator and the clock on one resource. What random
 * scripts may miss at depth one to six, this cannot.
 */
import { expect, it } from 'vitest'
import type { Command } from '../../src/core/command.ts'
import {
  acquire,
  claim,
  id,
  release,
  renew,
  revoke,
  TTL_MS,
  WAITING,
  WINDOW_MS,
} from './builders.ts'
import { PromiseWatch } from './promises.ts'
import { TinyRealm } from './tiny-realm.ts'

type Move = Command | { readonly kind: 'pass'; readonly ms: number }

const MOVES: readonly Move[] = [
  acquire({ leaseId: id(1), holder: 'ada' }),
  acquire({ leaseId: id(2), holder: 'bob', ...WAITING }),
  acquire({ leaseId: id(3), holder: 'cyd', ...WAITING }),
  claim({ leaseId: id(2), session: 'session-of-bob' }),
  claim({ leaseId: id(3), session: 'session-of-cyd' }),
  renew({ requestId: 'r1' }),
  release({ requestId: 'r2' }),
  revoke({ leaseId: id(2), requestId: 'r3' }),
  { kind: 'pass', ms: WINDOW_MS - 0.001 },
  { kind: 'pass', ms: TTL_MS },
]
const DEPTH = 6

it('keeps every promise in each of the million sequences of six moves', () => {
  const outcomes = new Set<string>()
  for (let number = 0; number < MOVES.length ** DEPTH; number += play(number, outcomes));
  expect([...outcomes].toSorted()).toEqual([
    ...['acquire expired', 'acquire granted', 'acquire held', 'acquire queued', 'acquire terminal'],
    ...['claim dropped', 'claim expired', 'claim granted', 'claim queued', 'claim terminal'],
    ...['release expired', 'release not_found', 'release released', 'release terminal'],
    ...['renew expired', 'renew not_found', 'renew renewed', 'renew terminal'],
    ...['revoke expired', 'revoke not_found', 'revoke revoked', 'revoke terminal'],
  ])
})

/**
 * Plays the sequence whose moves are the digits of `number` and returns how far the next one is. After a move that
 * changed nothing, what follows is what follows without it: all sequences with this beginning are done at once.
 */
function play(number: number, outcomes: Set<string>): number {
  const realm = new TinyRealm()
  const watch = new PromiseWatch(realm)
  let weight = MOVES.length ** DEPTH
  while (weight > 1) {
    weight /= MOVES.length
    const move = MOVES[Math.floor(number / weight) % MOVES.length]
    if (move === undefined) throw new Error('no such move')
    if (move.kind === 'pass') {
      realm.pass(move.ms)
      continue
    }
    const { outcome, events } = watch.run(move).decision
    outcomes.add(`${move.kind} ${outcome.kind}`)
    if (events.length === 0) return weight
  }
  watch.checkLedger()
  return 1
}
