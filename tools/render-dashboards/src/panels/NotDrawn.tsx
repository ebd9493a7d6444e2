import { getFieldDisplayName, type PanelProps, renderMarkdown } from '@grafana/data';

/** A type of panel whose drawing Grafana does not publish: its data as text. */
export const NotDrawn = ({ data, height }: PanelProps<any>) => (
  <div style={{ height, overflow: 'auto', fontSize: 12 }}>
    <p>Not drawn here. Its data:</p>
    {data.series.flatMap((frame) =>
      frame.fields.map((field) => (
        <div key={`${frame.refId} ${field.name} ${getFieldDisplayName(field, frame)}`}>
          {frame.refId}: {getFieldDisplayName(field, frame, data.series)}, {field.values.length} values
        </div>
      )),
    )}
  </div>
);

export const TextPanel = ({ options, height, replaceVariables }: PanelProps<any>) => (
  <div
    className="markdown-html"
    style={{ height, overflow: 'auto' }}
    dangerouslySetInnerHTML={{ __html: renderMarkdown(replaceVariables(options.content ?? '', {}, 'html')) }}
  />
);
