/** A cycle of waits: each holder waits for what the next one holds. */
import type { JSX } from 'preact'
import { Mark } from './marks.tsx'
import { HolderLink, ResourceLink } from './names.tsx'

interface Step {
  readonly holder: string
  /** Absent where the reader may not see it. */
  readonly resource?: string
}

export function CyclePicture({ steps }: { steps: readonly Step[] }): JSX.Element {
  return (
    <ol class="cycle">
      {steps.map(({ holder, resource }, index) => (
        <li key={index}>
          <Mark name="deadlock" isSilent />
          <HolderLink name={holder} />
          <span class="dim">waits for</span>
          {resource === undefined ? (
            <span class="dim">what is hidden</span>
          ) : (
            <ResourceLink name={resource} />
          )}
          <span class="dim">of</span>
          <HolderLink name={steps[(index + 1) % steps.length]?.holder ?? ''} />
        </li>
      ))}
    </ol>
  )
}
