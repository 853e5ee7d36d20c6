/**
 * `npm run sim -- --seed 42 --minutes 1` runs seeds from 42 on for a minute of real time, `--seeds 500` so many of
 * them, and `--seed 42` alone that one seed with its whole trace. `--store memory` plays them on the store that decides
 * where it is, `--store optimistic` on one that decides before it asks a server; without it each seed is played on both,
 * one after the other. `--quiet` leaves the trace out. Exit code 1: a promise was broken; 2: the arguments make no sense.
 */
import { parseArgs } from 'node:util'
import { failureLines, Tally, traceLines } from './report.ts'
import { runSeed, traceHash } from './run-seed.ts'
import { STORE_KINDS, type StoreKind } from './store-host.ts'

const USAGE =
  'usage: npm run sim -- [--store memory|optimistic] [--seed S] [--seeds N | --minutes M] [--quiet]'

interface Options {
  readonly seed: number
  /** How many seeds; null: until the time is over. */
  readonly seeds: number | null
  readonly minutes: number | null
  readonly isTraced: boolean
  readonly stores: readonly StoreKind[]
}

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2))
  if (options === null) {
    process.stderr.write(`${USAGE}\n`)
    return 2
  }
  const tally = new Tally()
  const startedMs = performance.now()
  const untilMs = options.minutes === null ? Infinity : startedMs + options.minutes * 60_000
  let seed = options.seed
  do {
    for (const store of options.stores) {
      const report = await runSeed(seed, { store })
      tally.add(report)
      if (options.isTraced) for (const line of traceLines(report)) say(line)
      if (options.seeds === 1) say(`seed ${seed}, ${store} store, trace ${traceHash(report)}`)
      for (const line of failureLines(report)) say(line)
    }
    seed += 1
  } while (performance.now() < untilMs && seed - options.seed < (options.seeds ?? Infinity))
  const tookMs = Math.round((performance.now() - startedMs) / (seed - options.seed))
  say(`seeds ${options.seed} to ${seed - 1}, ${tookMs} ms each`)
  for (const line of tally.lines()) say(line)
  return tally.isClean ? 0 : 1
}

function readOptions(args: readonly string[]): Options | null {
  const parsed = tryParse(args)
  if (parsed === null) return null
  const seed = readNumber(parsed.seed, 1)
  const minutes = readNumber(parsed.minutes, null)
  const seeds = readNumber(parsed.seeds, null)
  const stores = STORE_KINDS.filter((kind) => kind === (parsed.store ?? kind))
  if (stores.length === 0) return null
  if (seed === undefined || minutes === undefined || seeds === undefined || seed === null) {
    return null
  }
  const isSingle = minutes === null && seeds === null
  return {
    ...{ seed, minutes, stores },
    seeds: isSingle ? 1 : seeds,
    isTraced: isSingle && parsed.quiet !== true,
  }
}

type Parsed = Partial<Record<'store' | 'seed' | 'seeds' | 'minutes', string>> & {
  readonly quiet?: boolean
}

function tryParse(args: readonly string[]): Parsed | null {
  try {
    const text = { type: 'string' } as const
    const texts = { store: text, seed: text, seeds: text, minutes: text }
    const options = { ...texts, quiet: { type: 'boolean' } } as const
    return parseArgs({ args: [...args], options }).values
  } catch {
    return null
  }
}

/** Undefined: not a number that makes sense. */
function readNumber<Missing>(
  text: string | undefined,
  missing: Missing,
): number | Missing | undefined {
  if (text === undefined) return missing
  const value = Number(text)
  return text !== '' && Number.isFinite(value) && value >= 0 ? value : undefined
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

process.exitCode = await main()
