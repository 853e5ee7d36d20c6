/**
 * Every short sequence of a few moves, none left out. What random scripts may miss at depth one to five, this cannot.
 */
import { describe, expect, it } from 'vitest'
import type { Command } from '../../src/core/command.ts'
import {
  acquire,
  claim,
  file,
  id,
  release,
  renew,
  revoke,
  TTL_MS,
  WAITING,
  WINDOW_MS,
  withdraw,
} from './builders.ts'
import { PromiseWatch } from './promises.ts'
import { TinyRealm } from './tiny-realm.ts'

type Move =
  | Command
  | { readonly kind: 'pass'; readonly ms: number }
  | { readonly kind: 'domain'; readonly domain: string }

interface Game {
  readonly name: string
  readonly depth: number
  readonly keepsHistory?: false
  readonly moves: readonly Move[]
  /** What must come up, or the game was not worth playing. */
  readonly outcomes: readonly string[]
}

const ada = acquire({ leaseId: id(1), holder: 'ada' })
const bob = acquire({ leaseId: id(2), holder: 'bob', ...WAITING })
const cyd = acquire({ leaseId: id(3), holder: 'cyd', ...WAITING })
const claimOfBob = claim({ leaseId: id(2), session: 'session-of-bob' })
const claimOfCyd = claim({ leaseId: id(3), session: 'session-of-cyd' })
const shared = { mode: 'shared' } as const
const subtree = { resource: file('/s'), extent: 'subtree' } as const
const [fileA, fileB] = [{ resource: file('/s/a') }, { resource: file('/s/b') }]

const GAMES: readonly Game[] = [
  {
    name: 'a holder, two waiters, an operator and the clock',
    depth: 5,
    moves: [
      ...[ada, bob, cyd, claimOfBob, claimOfCyd],
      ...[renew({ requestId: 'r1' }), release({ requestId: 'r2' })],
      revoke({ leaseId: id(2), requestId: 'r3' }),
      { kind: 'pass', ms: WINDOW_MS - 0.001 },
      { kind: 'pass', ms: TTL_MS },
    ],
    outcomes: [
      ...['acquire expired', 'acquire granted', 'acquire held', 'acquire queued'],
      ...['acquire terminal', 'claim dropped', 'claim expired', 'claim granted', 'claim queued'],
      ...['claim terminal', 'release expired', 'release not_found', 'release released'],
      ...['renew expired', 'renew not_found', 'renew renewed'],
      ...['renew terminal', 'revoke expired', 'revoke not_found', 'revoke revoked'],
      'revoke terminal',
    ],
  },
  {
    name: 'a writer and two readers',
    depth: 5,
    moves: [
      ...[ada, { ...bob, ...shared }, claimOfBob, release()],
      ...[{ ...cyd, ...shared, wait: { kind: 'none' } } as const, { ...cyd, leaseId: id(4) }],
      release({ leaseId: id(3), holder: 'cyd' }),
      { kind: 'pass', ms: WINDOW_MS },
    ],
    outcomes: [
      ...['acquire expired', 'acquire granted', 'acquire held', 'acquire queued'],
      ...['acquire terminal', 'claim dropped', 'claim expired', 'claim granted', 'claim queued'],
      ...['release expired', 'release not_found', 'release released', 'release terminal'],
    ],
  },
  {
    name: 'two files and who waits for the directory that has both',
    depth: 5,
    moves: [
      ...[
        { ...ada, ...fileA },
        { ...bob, ...fileB },
        { ...cyd, ...subtree },
      ],
      ...[
        { ...claimOfCyd, ...subtree },
        { ...claimOfBob, ...fileB },
      ],
      ...[release({ ...fileA }), release({ leaseId: id(2), holder: 'bob', ...fileB })],
      withdraw({ leaseId: id(3), session: 'session-of-cyd', ...subtree }),
      { kind: 'pass', ms: WINDOW_MS },
    ],
    outcomes: [
      ...['acquire expired', 'acquire granted', 'acquire held', 'acquire queued'],
      ...['acquire terminal', 'claim dropped', 'claim expired', 'claim granted', 'claim queued'],
      ...['claim terminal', 'release expired', 'release not_found', 'release released'],
      ...['release terminal', 'withdraw withdrawn'],
    ],
  },
  {
    name: 'a holder and a waiter of whom no history is kept',
    depth: 5,
    keepsHistory: false,
    moves: [
      ...[ada, bob, claimOfBob, renew({ requestId: 'r1' }), release({ requestId: 'r2' })],
      revoke({ requestId: 'r3' }),
      { kind: 'pass', ms: TTL_MS },
    ],
    outcomes: [
      ...['acquire expired', 'acquire granted', 'acquire held', 'acquire queued'],
      ...['acquire terminal', 'claim dropped', 'claim expired', 'claim granted', 'claim queued'],
      ...['release expired', 'release not_found', 'release released', 'release terminal'],
      ...['renew expired', 'renew not_found', 'renew renewed'],
      ...['revoke expired', 'revoke not_found', 'revoke revoked'],
    ],
  },
  {
    name: 'a clock that becomes another, and a third',
    depth: 5,
    moves: [
      ...[ada, { ...bob, wait: { kind: 'none' } } as const, cyd, claimOfCyd],
      { kind: 'domain', domain: 'host-a/boot-1/7.0' },
      { kind: 'domain', domain: 'host-b/boot-5/0' },
      { kind: 'domain', domain: 'host-a/boot-2/0' },
      { kind: 'pass', ms: TTL_MS - 0.002 },
      { kind: 'pass', ms: 0.001 },
    ],
    outcomes: [
      ...['acquire expired', 'acquire granted', 'acquire held', 'acquire queued'],
      ...['claim dropped', 'claim expired', 'claim granted', 'claim queued'],
    ],
  },
]

describe('every promise holds in every sequence of', () => {
  it.each(GAMES)('$depth moves of $name', (game) => {
    const outcomes = new Set<string>()
    const end = game.moves.length ** game.depth
    for (let number = 0; number < end; number += play(game, number, outcomes));
    expect([...outcomes].toSorted()).toEqual(game.outcomes)
  })
})

/**
 * Plays the sequence whose moves are the digits of `number` and returns how far the next one is. After a move that
 * nobody could notice, what follows is what follows without it: all sequences with this beginning are done at once.
 */
function play(game: Game, number: number, outcomes: Set<string>): number {
  const { moves, depth, keepsHistory = true } = game
  const realm = new TinyRealm()
  const keeps = { key: 'keep_history', value: String(keepsHistory) } as const
  realm.settings.push({ ...keeps, scope: 'global', resourceId: null })
  const watch = new PromiseWatch(realm)
  let domains = 0
  let last: Move | null = null
  for (let weight = moves.length ** (depth - 1); weight >= 1; weight /= moves.length) {
    const move = moves[Math.floor(number / weight) % moves.length]
    if (move === undefined) throw new Error('no such move')
    if (move.kind === 'pass' || move.kind === 'domain') {
      const isUnnoticed = last === null || (move.kind === 'domain' && last.kind === 'domain')
      if (isUnnoticed || weight === 1) return weight
      if (move.kind === 'pass') realm.pass(move.ms)
      else realm.enterDomain(`${move.domain}#${(domains += 1) + 1}`)
    } else {
      const { outcome, events } = watch.run(move).decision
      outcomes.add(`${move.kind} ${outcome.kind}`)
      if (events.length === 0) return weight
    }
    last = move
  }
  if (keepsHistory) watch.checkLedger()
  return 1
}
