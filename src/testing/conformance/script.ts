/**
 * A seeded script of commands: several holders acquire, wait, claim, renew, release and let things lapse on a few
 * resources, while time passes. The same seed gives the same script on every store.
 */
import type { Command } from '../../core/command.ts'
import { parseResource } from '../../core/resource.ts'
import { TTL_MS, WINDOW_MS, type Stage } from './stage.ts'

export interface ScriptOptions {
  readonly seed: number
  readonly steps: number
}

const RESOURCES = ['work:a', 'work:b', 'file:/src/a.ts', 'file:/src_backup'].map(parseResource)
const HOLDERS = ['ada', 'bob', 'cyd', "d'Arc"]

interface Known {
  readonly leaseId: string
  readonly resource: (typeof RESOURCES)[number]
  readonly holder: string
}

export async function playScript(stage: Stage, { seed, steps }: ScriptOptions): Promise<void> {
  const random = randomFrom(seed)
  const known: Known[] = []
  for (let step = 0; step < steps; step += 1) {
    if (random() < 0.2) stage.clock.pass(pick(random, [1, WINDOW_MS - 1, WINDOW_MS, TTL_MS]))
    await stage.run(nextCommand(stage, random, known))
  }
}

function nextCommand(stage: Stage, random: () => number, known: Known[]): Command {
  const old = pick(random, known.slice(-12))
  if (old === undefined || random() < 0.35) {
    const resource = pick(random, RESOURCES) ?? parseResource('work:a')
    const wait = random() < 0.6 ? ({ kind: 'up_to', waitMs: 1_000 } as const) : NO_WAIT
    const holder = pick(random, HOLDERS) ?? 'ada'
    const command = stage.acquire({ resource, wait, holder })
    known.push({ leaseId: command.leaseId, resource, holder })
    return command
  }
  const { leaseId, resource, holder } = old
  const place = { leaseId, resource, extent: 'exact' } as const
  const session = `session-of-${holder}`
  const requestId = random() < 0.5 ? stage.id() : null
  const commands: readonly Command[] = [
    { kind: 'claim', ...place, session },
    { kind: 'claim', ...place, session },
    { kind: 'renew', ...place, holder, ttlMs: null, requestId },
    { kind: 'release', ...place, holder, releaseReason: 'completed', requestId },
    { kind: 'withdraw', ...place, session, why: 'aborted' },
    { kind: 'revoke', ...place, by: 'operator', reason: null, graceMs: 0, requestId },
    { kind: 'settle', ...place },
  ]
  return pick(random, commands) ?? { kind: 'settle', ...place }
}

const NO_WAIT = { kind: 'none' } as const

function pick<Item>(random: () => number, items: readonly [Item, ...Item[]]): Item
function pick<Item>(random: () => number, items: readonly Item[]): Item | undefined
function pick<Item>(random: () => number, items: readonly Item[]): Item | undefined {
  return items[Math.floor(random() * items.length)]
}

/** mulberry32 */
export function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
