/** Runs steps one after the other, and keeps the result of each as soon as it is there. */
import type { CampaignOptions } from './campaign-options.ts'
import type { Part, Step, StepOutcome } from './part.ts'
import { isDone, readResults, withStep, writeResults, type StepResult } from './results.ts'

export interface CampaignRun {
  readonly options: CampaignOptions
  readonly parts: readonly Part[]
  /** Where results are kept. */
  readonly folder: string
  readonly commit: string
  /** Replaces the progress line. */
  readonly onProgress: (line: string) => void
  /** Stays. */
  readonly onStep: (part: Part, result: StepResult) => void
}

export async function runCampaign(run: CampaignRun): Promise<void> {
  for (const part of run.parts) {
    if (!run.options.parts.includes(part.name)) continue
    const steps = part.steps.filter(({ name }) => name.includes(run.options.step))
    for (const [index, step] of steps.entries()) {
      const known = readResults(run.folder, part.name)
      const earlier = known.steps.find((result) => result.step === step.name)
      if (run.options.resume && isDone(earlier)) continue
      const place = `${part.name} ${index + 1}/${steps.length}, ${step.name}`
      const result = await runStep(run, step, place)
      writeResults(run.folder, withStep(part, readResults(run.folder, part.name), result))
      run.onStep(part, result)
    }
  }
}

async function runStep(run: CampaignRun, step: Step, place: string): Promise<StepResult> {
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
  const outcome = await outcomeOf(step, { seed, minutes, say })
  const seconds = Math.round((performance.now() - startMs) / 1_000)
  const facts = { step: step.name, seed, at, commit, minutes, wholeMinutes: step.minutes, seconds }
  return { ...facts, ...outcome }
}

/** A step that throws could not be run, and must not end the others. */
async function outcomeOf(step: Step, order: Parameters<Step['run']>[0]): Promise<StepOutcome> {
  try {
    return await step.run(order)
  } catch (error) {
    const [line = ''] = String(error instanceof Error ? (error.stack ?? error) : error).split('\n')
    return { counts: {}, failures: [], shortfalls: [`could not be run: ${line}`] }
  }
}
