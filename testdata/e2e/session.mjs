// One turn of a conversation of an SDK: calls the model until it calls no more tools, and prints its last text.
//   node session.mjs anthropic-1|anthropic-0|chat|responses|genai plain|stream PROMPT [PICTURE]
// In the environment: BASE_URL and API_KEY; STATE, the file in which the conversation is kept between turns; FILES, the
// folder of the picture and of the files that the tool reads.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const [which, mode, prompt, picture] = process.argv.slice(2)
const { BASE_URL: base, API_KEY: apiKey, STATE: state, FILES: files } = process.env
const stream = mode === 'stream'

const schema = { type: 'object', properties: { path: { type: 'string', description: 'Its name' } }, required: ['path'], additionalProperties: false }
const description = 'Reads a file.'
const read = ({ path }) => readFileSync(join(files, path), 'utf8')
const data = picture && readFileSync(join(files, picture), 'base64')

// Each SDK: ask() calls the model with the history, appends the answer to it and returns {text, calls: [{id, name, input}]}.
const sdks = {
  async anthropic(name) {
    const { default: Anthropic } = await import(name)
    const client = new Anthropic({ baseURL: base, apiKey, maxRetries: 0 })
    return {
      user: (text) => ({ role: 'user', content: data
        ? [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data } }, { type: 'text', text }]
        : text }),
      results: (calls) => [{ role: 'user', content: calls.map((c) => ({ type: 'tool_result', tool_use_id: c.id, content: c.output })) }],
      async ask(messages) {
        const body = {
          model: 'claude-opus-5-5', max_tokens: 4000, system: 'You read files.', thinking: { type: 'adaptive' }, messages,
          tools: [{ name: 'read', description, input_schema: schema }],
        }
        const answer = stream ? await client.messages.stream(body).finalMessage() : await client.messages.create(body)
        messages.push({ role: 'assistant', content: answer.content })
        return {
          text: answer.content.filter((b) => b.type === 'text').map((b) => b.text).join(''),
          calls: answer.content.filter((b) => b.type === 'tool_use').map(({ id, input }) => ({ id, input })),
        }
      },
    }
  },

  async chat() {
    const client = await openai()
    return {
      user: (text) => ({ role: 'user', content: data
        ? [{ type: 'text', text }, { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }]
        : text }),
      results: (calls) => calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: c.output })),
      async ask(messages) {
        const body = {
          model: 'gpt-5.5', messages: [{ role: 'developer', content: 'You read files.' }, ...messages], reasoning_effort: 'medium',
          tools: [{ type: 'function', function: { name: 'read', description, parameters: schema } }],
        }
        const { content, tool_calls, reasoning_content } = stream ? await streamed(body) : (await client.chat.completions.create(body)).choices[0].message
        messages.push({ role: 'assistant', content, tool_calls, reasoning_content })
        return { text: content, calls: (tool_calls ?? []).map((c) => ({ id: c.id, input: JSON.parse(c.function.arguments) })) }
      },
    }

    // The SDK's own accumulation does not know reasoning_content.
    async function streamed(body) {
      const events = client.chat.completions.stream({ ...body, stream_options: { include_usage: true } })
      let reasoning = ''
      events.on('chunk', (chunk) => { reasoning += chunk.choices[0]?.delta?.reasoning_content ?? '' })
      const { content, tool_calls } = (await events.finalChatCompletion()).choices[0].message
      return { content, tool_calls, reasoning_content: reasoning || undefined }
    }
  },

  async responses() {
    const client = await openai()
    return {
      user: (text) => ({ role: 'user', content: [
        { type: 'input_text', text },
        ...(data ? [{ type: 'input_image', image_url: `data:image/png;base64,${data}`, detail: 'auto' }] : []),
      ] }),
      results: (calls) => calls.map((c) => ({ type: 'function_call_output', call_id: c.id, output: c.output })),
      async ask(input) {
        const body = {
          model: 'gpt-5.5', instructions: 'You read files.', input, store: false, include: ['reasoning.encrypted_content'],
          reasoning: { effort: 'medium', summary: 'auto' },
          tools: [{ type: 'function', name: 'read', description, parameters: schema, strict: true }],
        }
        const answer = stream ? await client.responses.stream(body).finalResponse() : await client.responses.create(body)
        input.push(...answer.output.map(({ parsed, parsed_arguments, ...item }) => ({
          ...item, ...(item.content && { content: item.content.map(({ parsed, ...part }) => part) }),
        })))
        return {
          text: answer.output_text,
          calls: answer.output.filter((i) => i.type === 'function_call').map((c) => ({ id: c.call_id, input: JSON.parse(c.arguments) })),
        }
      },
    }
  },

  async genai() {
    const { GoogleGenAI } = await import('@google/genai')
    const client = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: base } })
    return {
      user: (text) => ({ role: 'user', parts: [{ text }, ...(data ? [{ inlineData: { mimeType: 'image/png', data } }] : [])] }),
      results: (calls) => [{ role: 'user', parts: calls.map((c) => ({ functionResponse: { id: c.id, name: 'read', response: { output: c.output } } })) }],
      async ask(contents) {
        const request = {
          model: 'gemini-3.1-pro-preview', contents,
          config: {
            systemInstruction: 'You read files.', thinkingConfig: { includeThoughts: true },
            tools: [{ functionDeclarations: [{ name: 'read', description, parametersJsonSchema: schema }] }],
          },
        }
        const chunks = []
        if (stream) {
          for await (const chunk of await client.models.generateContentStream(request)) chunks.push(chunk)
        } else {
          chunks.push(await client.models.generateContent(request))
        }
        const parts = chunks.flatMap((c) => c.candidates?.[0]?.content?.parts ?? [])
        contents.push({ role: 'model', parts })
        return {
          text: parts.filter((p) => p.text && !p.thought).map((p) => p.text).join(''),
          calls: parts.filter((p) => p.functionCall).map((p) => ({ id: p.functionCall.id, input: p.functionCall.args })),
        }
      },
    }
  },
}

async function openai() {
  const { default: OpenAI } = await import('openai')
  return new OpenAI({ baseURL: `${base}/v1`, apiKey, maxRetries: 0 })
}

const [kind, major] = which.split('-')
const sdk = await sdks[kind](major === '0' ? 'anthropic-sdk-0' : '@anthropic-ai/sdk')
const history = existsSync(state) ? JSON.parse(readFileSync(state, 'utf8')) : []
history.push(sdk.user(prompt))
let answer
for (let n = 0; n < 5; n++) {
  answer = await sdk.ask(history)
  if (answer.calls.length === 0) break
  history.push(...sdk.results(answer.calls.map((c) => ({ ...c, output: read(c.input) }))))
}
writeFileSync(state, JSON.stringify(history))
console.log(answer.text)
