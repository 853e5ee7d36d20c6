/** Reads the command line of the campaign. What cannot be read is refused with one line. */
import { parseArgs } from 'node:util'
import { STEP_MINUTES_MAX } from './part.ts'

export class CampaignUsageError extends Error {
  override name = 'CampaignUsageError'
}

export interface CampaignOptions {
  readonly parts: readonly string[]
  /** Text that the name of a step must have in it; empty: every step. */
  readonly step: string
  readonly resume: boolean
  readonly minutes: number
  /** Keeps the results of steps that had less than their time as well. */
  readonly write: boolean
  readonly seed: number
  readonly isHelp: boolean
  /** Runs nothing, and writes the page from the results that are there. */
  readonly isPageOnly: boolean
}

export function helpOf(names: readonly string[]): string {
  return `npm run campaign -- [options]

Tries Tenure at length and writes campaign/results and docs/reliability.md. Without options it
runs all of it: about 7 hours of two cores, with nothing else on the machine.

  --only PARTS    some of ${names.join(', ')}
  --step TEXT     only the steps with this text in their name
  --resume        goes on after the steps whose results are whole
  --minutes N     of each step at most, up to ${STEP_MINUTES_MAX}; a step that has less than its own is not kept
  --write         keeps it all the same, in the place of a whole run
  --seed S        a whole number; default: another one each time
  --page          only writes the page anew, from the results
  -h, --help      this

Exit code 1: something failed, did less than its minimum or had less than its time; 2: the options
make no sense.
`
}

export function readCampaignOptions(
  args: readonly string[],
  names: readonly string[],
  chance: () => number,
): CampaignOptions {
  const values = parse(args)
  return {
    parts: values.only === undefined ? names : partsOf(values.only, names),
    step: values.step ?? '',
    resume: values.resume === true,
    write: values.write === true,
    minutes: minutesOf(values.minutes),
    seed: seedOf(values.seed, chance),
    isHelp: values.help === true,
    isPageOnly: values.page === true,
  }
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        only: { type: 'string' },
        step: { type: 'string' },
        resume: { type: 'boolean' },
        minutes: { type: 'string' },
        write: { type: 'boolean' },
        seed: { type: 'string' },
        page: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    }).values
  } catch (error) {
    const [line = ''] = String(error instanceof Error ? error.message : error).split('\n')
    throw new CampaignUsageError(`${line.replace(/\.( To specify .*)?$/, '')}; see --help`)
  }
}

function partsOf(text: string, names: readonly string[]): readonly string[] {
  const given = text.split(',').map((part) => part.trim())
  const unknown = given.find((part) => !names.includes(part))
  if (unknown === undefined) return names.filter((name) => given.includes(name))
  throw new CampaignUsageError(`--only must be some of ${names.join(', ')}, got ${unknown}`)
}

function minutesOf(text: string | undefined): number {
  if (text === undefined) return STEP_MINUTES_MAX
  const minutes = Number(text)
  if (minutes > 0 && minutes <= STEP_MINUTES_MAX) return minutes
  throw new CampaignUsageError(`--minutes must be above 0, up to ${STEP_MINUTES_MAX}, got ${text}`)
}

const SEED_MAX = 2 ** 31

function seedOf(text: string | undefined, chance: () => number): number {
  if (text === undefined) return Math.floor(chance() * SEED_MAX)
  const seed = Number(text)
  if (text !== '' && Number.isSafeInteger(seed) && seed >= 0) return seed
  throw new CampaignUsageError(`--seed must be a whole number of at least 0, got ${text}`)
}
