/**
 * Runs the steps of one part after the other, and keeps the result of each as soon as it is there. One of a step that had less
 * than its time is kept only if `--write` says so, and one that could not start never takes the place of another.
 */
import { childReport } from './child-report.ts'
import { CampaignUsageError, type CampaignOptions } from './campaign-options.ts'
import type { Part, Step, StepOrder, StepOutcome } from './part.ts'
import {
  hasStarted,
  isDone,
  isShort,
  readResults,
  withStep,
  writeResults,
  type StepResult,
} from './results.ts'
import type { ProcessOrder } from './step-process.ts'

export interface CampaignRun {
  readonly options: CampaignOptions
  readonly parts: readonly Part[]
  /** Where results are kept. */
  readonly folder: string
  readonly commit: string
  /** Replaces the progress line. */
  readonly onProgress: (line: string) => void
  /** Stays, as `onStep` does. */
  readonly onNotice: (line: string) => void
  readonly onStep: (tried: TriedStep) => void
}

export interface TriedStep {
  readonly part: Part
  readonly result: StepResult
  readonly isWritten: boolean
}

export async function runCampaign(run: CampaignRun): Promise<readonly TriedStep[]> {
  const chosen = chosenSteps(run)
  if (run.options.resume) run.onNotice(skippedText(run, chosen))
  const tried: TriedStep[] = []
  for (const { part, steps } of chosen) {
    const left = steps.entries()
    const runSome = async (): Promise<void> => {
      for (const [index, step] of left) {
        const known = readResults(run.folder, part.name)
        const earlier = known.steps.find((result) => result.step === step.name)
        if (run.options.resume && isDone(earlier)) continue
        const place = `${part.name} ${index + 1}/${steps.length}, ${step.name}`
        const result = await runStep(run, part, { step, place })
        const isWritten =
          (run.options.write || !isShort(result)) && (earlier === undefined || hasStarted(result))
        if (isWritten) {
          writeResults(run.folder, withStep(part, readResults(run.folder, part.name), result))
        }
        tried.push({ part, result, isWritten })
        run.onStep({ part, result, isWritten })
      }
    }
    await Promise.all(Array.from({ length: part.atOnce ?? 1 }, runSome))
  }
  return tried
}

interface Chosen {
  readonly part: Part
  readonly steps: readonly Step[]
}

function chosenSteps({ options, parts }: CampaignRun): readonly Chosen[] {
  const chosen = parts
    .filter(({ name }) => options.parts.includes(name))
    .map((part) => ({ part, steps: part.steps.filter(({ name }) => name.includes(options.step)) }))
  if (chosen.some(({ steps }) => steps.length > 0)) return chosen
  const names = options.parts.join(', ')
  throw new CampaignUsageError(
    `--step must be in the name of a step of ${names}, got ${options.step}`,
  )
}

function skippedText({ folder, commit }: CampaignRun, chosen: readonly Chosen[]): string {
  const done = chosen.flatMap(({ part, steps }) => {
    const names = new Set(steps.map(({ name }) => name))
    return readResults(folder, part.name)
      .steps.filter(({ step }) => names.has(step))
      .filter(isDone)
  })
  const others = done.filter((earlier) => earlier.commit !== commit)
  const commits = new Set(others.map((earlier) => earlier.commit)).size
  return `${done.length} steps are done and skipped; ${others.length} of them were run at ${commits} other commits`
}

interface PlacedStep {
  readonly step: Step
  /** How it is called while it runs. */
  readonly place: string
}

async function runStep(
  run: CampaignRun,
  part: Part,
  { step, place }: PlacedStep,
): Promise<StepResult> {
  const { options, commit } = run
  const minutes = Math.min(step.minutes, options.minutes)
  const { seed } = options
  const at = new Date().toISOString().slice(0, 16).replace('T', ' ')
  const startMs = performance.now()
  const say = (text: string): void => {
    const seconds = Math.round((performance.now() - startMs) / 1_000)
    run.onProgress(`${place}: ${seconds} s of ${Math.round(minutes * 60)} s, ${text}`)
  }
  say('begins')
  const outcome = await outcomeOf(part, step, { seed, minutes, say })
  const seconds = Math.round((performance.now() - startMs) / 1_000)
  const facts = { step: step.name, seed, at, commit, minutes, wholeMinutes: step.minutes, seconds }
  return { ...facts, ...outcome }
}

/** A step that throws could not be run, and must not end the others. */
async function outcomeOf(part: Part, step: Step, order: StepOrder): Promise<StepOutcome> {
  try {
    return await (part.atOnce === undefined ? step.run(order) : runApart(part, step, order))
  } catch (error) {
    const [line = ''] = String(error instanceof Error ? (error.stack ?? error) : error).split('\n')
    return { counts: {}, failures: [], shortfalls: [`could not be run: ${line}`] }
  }
}

/** What one step does, such as checking its logs, must not keep another from serving the network of its own. */
function runApart(part: Part, step: Step, { seed, minutes, say }: StepOrder): Promise<StepOutcome> {
  const order: ProcessOrder = { part: part.name, step: step.name, seed, minutes }
  return childReport({ program: 'campaign/step-process.ts', order, onLine: say })
}
