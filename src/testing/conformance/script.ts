/**
 * A seeded script of commands: several holders acquire, share, wait, claim, renew, upgrade, give away, release and let
 * things lapse on a few resources, while time passes. The same seed gives the same script on every store.
 */
import type { Command } from '../../core/command.ts'
import { parseResource, type Reach } from '../../core/resource.ts'
import { randomFrom } from '../fake-runtime.ts'
import { placeOf, TTL_MS, WINDOW_MS, type LeasePlace, type Stage } from './stage.ts'

export interface ScriptOptions {
  readonly seed: number
  readonly steps: number
}

const PLACES: readonly Reach[] = [
  ...['work:a', 'workflow:b', 'file:/src/a.ts', 'file:/src_backup'].map((name) => {
    return { resource: parseResource(name), extent: 'exact' } as const
  }),
  { resource: parseResource('file:/src'), extent: 'subtree' },
]
const HOLDERS = ['ada', 'bob', 'cyd', "d'Arc"]

export async function playScript(stage: Stage, { seed, steps }: ScriptOptions): Promise<void> {
  const random = randomFrom(seed)
  const known: LeasePlace[] = []
  for (let step = 0; step < steps; step += 1) {
    if (random() < 0.2) stage.clock.pass(pick(random, [1, WINDOW_MS - 1, WINDOW_MS, TTL_MS]))
    await stage.run(nextCommand(stage, random, known))
  }
}

function nextCommand(stage: Stage, random: () => number, known: LeasePlace[]): Command {
  const old = pick(random, known.slice(-12))
  if (old === undefined || random() < 0.35) {
    const { resource, extent } = pick(random, PLACES) ?? FIRST_PLACE
    const wait = random() < 0.6 ? ({ kind: 'up_to', waitMs: 1_000 } as const) : NO_WAIT
    const holder = pick(random, HOLDERS) ?? 'ada'
    const mode = random() < 0.4 ? 'shared' : 'exclusive'
    const lockDelayMs = random() < 0.1 ? WINDOW_MS : 0
    const request = { mode, lockDelayMs, priority: pick(random, [-1, 0, 0, 1]) } as const
    const command = stage.acquire({ resource, extent, wait, holder, ...request })
    known.push(placeOf(command))
    return command
  }
  const { leaseId, resource, extent, holder } = old
  const place = { leaseId, resource, extent }
  const session = `session-of-${holder}`
  const requestId = random() < 0.5 ? stage.id() : null
  const commands: readonly Command[] = [
    { kind: 'claim', ...place, holder, session },
    {
      kind: 'keep_alive',
      ...place,
      holder,
      session,
      ...(random() < 0.5 ? { implied: [stage.id()] } : {}),
    },
    { kind: 'renew', ...place, holder, ttlMs: null, requestId },
    { kind: 'release', ...place, holder, releaseReason: 'completed', requestId },
    { kind: 'withdraw', ...place, holder, session, why: 'aborted' },
    { kind: 'revoke', ...place, by: 'operator', reason: null, graceMs: 0, requestId },
    { kind: 'revoke', ...place, by: 'operator', reason: null, graceMs: 100, requestId },
    { kind: 'upgrade', ...place, holder, mayWait: true },
    { kind: 'withdraw_upgrade', ...place, holder },
    { kind: 'downgrade', ...place, holder, requestId },
    { kind: 'transfer', ...place, holder, to: null, newLeaseId: stage.id(), requestId },
    transfer(stage, known, old),
    { kind: 'adopt', ...place, holder, session },
    advance(random, old, requestId),
    { kind: 'settle', ...place },
  ]
  return pick(random, commands) ?? { kind: 'settle', ...place }
}

/** From an epoch that may be the next, of something that may be a workflow. */
function advance(
  random: () => number,
  { holder, ...place }: LeasePlace,
  requestId: string | null,
): Command {
  const [from, count] = [pick(random, [0, 1, 2, 3]), pick(random, [1, 1, 2])]
  return { kind: 'advance', ...place, holder, from, count, reason: null, requestId }
}

/** The receiver may go on with it. */
function transfer(stage: Stage, known: LeasePlace[], { holder, ...place }: LeasePlace): Command {
  const to = holder === 'ada' ? 'bob' : 'ada'
  const newLeaseId = stage.id()
  known.push({ ...place, leaseId: newLeaseId, holder: to })
  return { kind: 'transfer', ...place, holder, to, newLeaseId, requestId: null }
}

const FIRST_PLACE: Reach = { resource: parseResource('work:a'), extent: 'exact' }
const NO_WAIT = { kind: 'none' } as const

function pick<Item>(random: () => number, items: readonly [Item, ...Item[]]): Item
function pick<Item>(random: () => number, items: readonly Item[]): Item | undefined
function pick<Item>(random: () => number, items: readonly Item[]): Item | undefined {
  return items[Math.floor(random() * items.length)]
}
