/** Asks for the token, once for as long as the tab is open. */
import type { JSX } from 'preact'
import { useSignal } from '@preact/signals'

interface Props {
  /** What was wrong with the one before; null: none was given yet. */
  readonly problem: string | null
  readonly onToken: (token: string) => void
}

export function TokenPrompt({ problem, onToken }: Props): JSX.Element {
  const token = useSignal('')
  return (
    <main class="prompt">
      <form
        onSubmit={(event) => {
          event.preventDefault()
          if (token.value.trim() !== '') onToken(token.value.trim())
        }}
      >
        <h1>Tenure</h1>
        <label class="field">
          Token
          <input
            type="password"
            autocomplete="off"
            autofocus
            value={token.value}
            onInput={(event) => (token.value = event.currentTarget.value)}
          />
        </label>
        {problem === null ? null : (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class="solid">
          Open
        </button>
        <p class="dim">
          <code>tenure tokens create --name me --role reader</code> makes one. It stays in this tab,
          and is forgotten with it.
        </p>
      </form>
    </main>
  )
}
