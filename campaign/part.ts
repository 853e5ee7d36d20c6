/**
 * A part of the campaign: one kind of trial, cut into steps of at most 15 minutes, each of which says what it did and what
 * it found. A part that did less than its minimum has shown nothing, and fails like one that found something.
 */
import fs from 'node:fs'
import path from 'node:path'

/** Sums by name, for example operations and grants. */
export type Counts = Readonly<Record<string, number>>

export interface StepOrder {
  /** Whatever a step leaves to chance follows from it, as far as real processes and clocks allow. */
  readonly seed: number
  /** How long the step may go on. One that counts to an end of its own takes as long as that. */
  readonly minutes: number
  /** Says how far it is, on the progress line. */
  readonly say: (text: string) => void
}

export interface StepOutcome {
  readonly counts: Counts
  /** What a promise forbids and happened all the same; a step without any has found nothing. */
  readonly failures: readonly string[]
  /** Why the step does not count although nothing failed: it did too little, too slowly, or nothing dangerous. */
  readonly shortfalls: readonly string[]
  /** How often each thing occurred that must occur for a trial to be worth its name. */
  readonly points?: Counts
  /** What a reader of the page should know of this step. */
  readonly note?: string
}

export interface Step {
  readonly name: string
  /** How long a whole run of the step is. */
  readonly minutes: number
  run(order: StepOrder): Promise<StepOutcome>
}

export interface Part {
  readonly name: string
  /** For the page: what is tried, and what must not happen. */
  readonly about: string
  readonly steps: readonly Step[]
  /** How many steps run at the same time, each in a process of its own, where one alone leaves half of the machine idle; default 1. */
  readonly atOnce?: number
  /** What all steps together must have done. */
  readonly atLeast: Counts
  /** How large a share of one count another must be, over all steps. */
  readonly sharesAtLeast?: readonly Share[]
  /** How often all steps together must have met each of the points that a step tells of. */
  readonly pointsAtLeast?: number
}

export interface Share {
  readonly count: string
  readonly of: string
  /** 1 is all. */
  readonly least: number
}

export const STEP_MINUTES_MAX = 15

/** The root of the repository, from the sources and from dist-dev/ alike. */
export const ROOT: string = rootAbove(import.meta.dirname)

function rootAbove(folder: string): string {
  if (fs.existsSync(path.join(folder, 'campaign', 'results'))) return folder
  const parent = path.dirname(folder)
  if (parent === folder) throw new Error('campaign/results is in no folder above this file')
  return rootAbove(parent)
}
