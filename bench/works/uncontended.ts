/**
 * Work 1: acquire + release over 1,000 resources that nobody else wants, and renewals of 1,000 leases; 1 and 100 in
 * flight. One in flight is measured with client and server on the same core, and on two.
 */
import { coreLayouts, inLayout, type CoreLayout } from '../measure/cores.ts'
import { proveExclusion } from '../measure/exclusion.ts'
import { runFor, runLoopFor, type Slice } from '../measure/load.ts'
import type { Plan } from '../plan.ts'
import { messageOf, type Result } from '../result.ts'
import type { OpenSystem, StoreName } from '../system.ts'
import {
  closeAll,
  inTurns,
  openAll,
  systemsOf,
  type Entrant,
  type Opened,
  type Stage,
} from './entrants.ts'

const TTL_MS = 600_000
const PROBING = 6
const HOLD_TOGETHER = 100
const LEAD_IN_PART = 1 / 3
const KINDS = ['acquire+release', 'renew'] as const
type Kind = (typeof KINDS)[number]

interface Cell {
  readonly kind: Kind
  readonly inFlight: number
  readonly layout: CoreLayout
}

export async function measureUncontended(stage: Stage, plan: Plan): Promise<readonly Result[]> {
  const results: Result[] = []
  for (const store of plan.stores) {
    stage.say(`uncontended on ${store}`)
    results.push(...(await measureStore(stage, store, plan.uncontended)))
  }
  return results
}

async function measureStore(
  stage: Stage,
  store: StoreName,
  plan: Plan['uncontended'],
): Promise<readonly Result[]> {
  const { places } = stage
  const operations = new Map<OpenSystem, Operations>()
  const opened = await openAll(
    systemsOf(stage, store),
    { places, workers: PROBING },
    async (entrant) => {
      const { open } = entrant
      await proveExclusion(entrant, open)
      operations.set(open, await Operations.of(open, plan.resources))
    },
  )
  const servers = (): readonly number[] => places.processes(store)
  const layouts = coreLayouts(servers())
  const cells = KINDS.flatMap((kind): readonly Cell[] => [
    { kind, inFlight: 100, layout: 'any core' },
    ...layouts.map((layout) => ({ kind, inFlight: 1, layout })),
  ])
  const results: Result[] = []
  for (const cell of cells) {
    const able = opened.entrants.filter((entrant) =>
      operations.get(entrant.open)?.offers(cell.kind),
    )
    const measure = ({ open }: Entrant, sliceMs: number): Promise<Slice> => {
      const mine = operations.get(open)
      if (mine === undefined) throw new Error('it has no operations')
      return mine.run(cell.kind, { inFlight: cell.inFlight, sliceMs })
    }
    const warmUpMs = cell.inFlight > 1 ? plan.warmUpMs : plan.sliceMs
    const amounts = { ...plan, warmUpMs }
    const measured = await inLayout(cell.layout, servers, () => measureCell(able, amounts, measure))
    results.push(...resultsOf(cell, store, measured), ...failuresOf(cell, store, opened))
  }
  const broken = await findBroken(opened.entrants)
  await closeAll(opened.entrants, places)
  return results.map((result) => {
    const error = broken.get(result.system)
    return error === undefined ? result : { ...result, rounds: [], error }
  })
}

async function measureCell(
  entrants: readonly Entrant[],
  { rounds, sliceMs, warmUpMs }: Plan['uncontended'],
  measure: (entrant: Entrant, sliceMs: number) => Promise<Slice>,
): ReturnType<typeof inTurns<Slice>> {
  // The first turn is for the compiler: it would count against whoever has more to compile.
  const warmed = await inTurns(entrants, 1, (entrant) => measure(entrant, warmUpMs))
  const ready = entrants.filter((entrant) => warmed.get(entrant)?.kind === 'measured')
  const scored = await inTurns(ready, rounds, async (entrant) => {
    // What the one before has left to do, and what it took from the caches, is not to be paid for by this one.
    await measure(entrant, sliceMs * LEAD_IN_PART)
    return measure(entrant, sliceMs)
  })
  return new Map([...warmed, ...scored])
}

/** What excluded before it was measured must still do so after it. */
async function findBroken(entrants: readonly Entrant[]): Promise<ReadonlyMap<string, string>> {
  const broken = new Map<string, string>()
  for (const entrant of entrants) {
    await proveExclusion(entrant, entrant.open).catch((error: unknown) => {
      broken.set(entrant.system.name, `afterwards: ${messageOf(error)}`)
    })
  }
  return broken
}

/** The two things that are measured of a system, each with the state that it needs. */
class Operations {
  readonly #open: OpenSystem
  readonly #resources: number
  readonly #held: readonly unknown[]
  #next = 0

  private constructor(open: OpenSystem, resources: number, held: readonly unknown[]) {
    this.#open = open
    this.#resources = resources
    this.#held = held
  }

  static async of(open: OpenSystem, resources: number): Promise<Operations> {
    const mayRenew = open.renew !== undefined && open.loop === undefined
    const names = Array.from({ length: mayRenew ? resources : 0 }, (_, index) => `renewed-${index}`)
    const held: unknown[] = []
    for (let done = 0; done < names.length; done += HOLD_TOGETHER) {
      const some = names.slice(done, done + HOLD_TOGETHER)
      held.push(...(await Promise.all(some.map((name) => open.acquire(name, TTL_MS)))))
    }
    return new Operations(open, resources, held)
  }

  offers(kind: Kind): boolean {
    return kind === 'acquire+release' || this.#open.renew !== undefined
  }

  async run(
    kind: Kind,
    options: { readonly inFlight: number; readonly sliceMs: number },
  ): Promise<Slice> {
    const { loop } = this.#open
    if (loop !== undefined) {
      return runLoopFor(options, (count) => {
        if (kind === 'renew') loop.renewals(count, this.#resources)
        else loop.pairs(count, this.#resources)
      })
    }
    return runFor(options, () => (kind === 'renew' ? this.#renew() : this.#pair()))
  }

  async #pair(): Promise<void> {
    const held = await this.#open.acquire(`item-${this.#count() % this.#resources}`, TTL_MS)
    await this.#open.release(held)
  }

  /** Each ends later than the last one did: no store may find the same bytes and skip the write. */
  async #renew(): Promise<void> {
    const index = this.#count()
    await this.#open.renew?.(this.#held[index % this.#resources], TTL_MS + index)
  }

  #count(): number {
    this.#next += 1
    return this.#next
  }
}

function nameOf({ kind, layout }: Cell): string {
  return layout === 'any core' ? kind : `${kind}, ${layout}`
}

function resultsOf(
  cell: Cell,
  store: StoreName,
  measured: Awaited<ReturnType<typeof inTurns<Slice>>>,
): readonly Result[] {
  return [...measured].map(([{ system }, outcome]) => ({
    ...{ work: nameOf(cell), store, system: system.name, inFlight: cell.inFlight },
    isReference: system.role === 'reference',
    rounds: outcome.kind === 'measured' ? outcome.rounds : [],
    error: outcome.kind === 'failed' ? outcome.error : null,
  }))
}

function failuresOf(cell: Cell, store: StoreName, { failures }: Opened): readonly Result[] {
  return [...failures].map(([system, error]) => ({
    ...{ work: nameOf(cell), store, system, inFlight: cell.inFlight },
    ...{ isReference: false, rounds: [], error },
  }))
}
